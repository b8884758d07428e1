// A token at a time with cached keys and values, against forwards of all tokens: our own, and PyTorch's in float64
// (tests/golden/gpt2-talk/make.py).
#include "generate/generator.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "generate/sampler.h"
#include "model/initial_values.h"
#include "model/model_name.h"
#include "support/expect_error.h"
#include "support/memory_kv.h"
#include "support/paths.h"
#include "support/plugin_loader.h"
#include "support/temp_folder.h"
#include "weights/hf_folder.h"

namespace tessera::testing {
using namespace host;
namespace {

using Tokens = std::vector<int32_t>;
using Logits = std::vector<float>;

const std::string kTalk = source_dir("tests/golden/gpt2-talk");

class GeneratorTest : public ::testing::Test {
 protected:
  static std::shared_ptr<const Architecture> architecture(const std::string& model) {
    return find_architecture(model).architecture;
  }
  std::unique_ptr<Generator> generator(const std::string& folder, int64_t context = 0) {
    const auto architecture = GeneratorTest::architecture(folder);
    const HuggingFaceWeights weights(folder, architecture->build({.batch = 1, .seq = 1}).parameters,
                                     architecture->tensor_names());
    return std::make_unique<Generator>(architecture, weights, device_, context);
  }

  MemoryKv store_;
  tsr_host host_ = store_.host();
  Device device_{{.api = &load_plugin<tsr_device_interface>("cpu-device", TSR_DEVICE_INTERFACE),
                  .num_threads = 2,
                  .host = &host_}};
};

Logits copy_of(std::span<const float> logits) {
  return {logits.begin(), logits.end()};
}

void expect_near(const Logits& a, const std::vector<double>& b, double tolerance, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], tolerance) << what << ", logit " << i;
}

nlohmann::json golden_cases() {
  return nlohmann::json::parse(file_bytes(kTalk + "/cases.json"))["cases"];
}

TEST_F(GeneratorTest, LogitsAreThoseOfTheReference) {
  const auto talk = generator(kTalk);
  for (const auto& golden : golden_cases()) {
    const std::vector<double> expected = golden["logits"];
    const double largest = std::abs(*std::ranges::max_element(expected, {}, [](double x) { return std::abs(x); }));
    expect_near(copy_of(talk->start(golden["prompt"].get<Tokens>())), expected, 2e-6 * largest,
                golden["prompt"].dump());
  }
}

// Its prompts are shorter and longer than the context, and its continuations go beyond it.
TEST_F(GeneratorTest, TheMostProbableTokensAreThoseOfTheReference) {
  const auto talk = generator(kTalk);
  for (const auto& golden : golden_cases()) {
    Sampler sampler({.temperature = 0});
    Tokens made;
    std::span<const float> logits = talk->start(golden["prompt"].get<Tokens>());
    for (size_t i = 0; i < golden["greedy"].size(); ++i) {
      made.push_back(sampler.next(logits));
      logits = talk->append(made.back());
    }
    EXPECT_EQ(made, golden["greedy"].get<Tokens>()) << golden["prompt"];
  }
}

TEST_F(GeneratorTest, AppendedTokensHaveTheLogitsOfAForwardOfAll) {
  const auto talk = generator(kTalk), whole = generator(kTalk);
  Tokens tokens(static_cast<size_t>(talk->context()));
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int32_t>(i * 17 % 61);
  for (const size_t prompt : {size_t{1}, size_t{9}, tokens.size()}) {
    Logits logits = copy_of(talk->start(std::span(tokens).first(prompt)));
    for (size_t end = prompt;; ++end) {
      const Logits expected = copy_of(whole->start(std::span(tokens).first(end)));
      expect_near(logits, {expected.begin(), expected.end()}, 1e-4, std::to_string(end) + " tokens");
      if (end == tokens.size()) break;
      logits = copy_of(talk->append(tokens[end]));
    }
  }
}

TEST_F(GeneratorTest, AFullContextKeepsItsLaterHalf) {
  const auto talk = generator(kTalk), half = generator(kTalk);
  Tokens tokens(static_cast<size_t>(talk->context()));
  std::iota(tokens.begin(), tokens.end(), 3);
  talk->start(tokens);
  const Logits after = copy_of(talk->append(50));
  Tokens kept(tokens.begin() + talk->context() / 2, tokens.end());
  kept.push_back(50);
  EXPECT_EQ(after, copy_of(half->start(kept)));
  EXPECT_EQ(copy_of(talk->append(51)), copy_of(half->append(51)));
}

TEST_F(GeneratorTest, MayLookBackOnFewerTokens) {
  const auto talk = generator(kTalk), eight = generator(kTalk, 8);
  EXPECT_EQ(eight->context(), 8);
  const Tokens tokens = {3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  EXPECT_EQ(copy_of(eight->start(tokens)), copy_of(talk->start(Tokens(tokens.begin() + 2, tokens.end()))));
  eight->append(13);
  talk->start(Tokens{9, 10, 11, 12, 13});
  EXPECT_EQ(copy_of(eight->append(14)), copy_of(talk->append(14)));
  expect_error([&] { generator(kTalk, talk->context() + 1); }, {"a context of", "give fewer"});
}

TEST_F(GeneratorTest, ModelsAndPromptsThatItCannotTakeAreRefused) {
  const auto mlp = architecture("mlp:4,8,3");
  const InitialValues values(1, mlp->build({.batch = 1, .seq = 0}).parameters);
  expect_error([&] { Generator(mlp, values, device_); }, {"predicts classes, not tokens"});
  const auto talk = generator(kTalk);
  expect_error([&] { talk->start({}); }, {"the prompt has no token"});
  expect_error([&] { talk->start(Tokens{1, 61}); }, {"the token 61", "0 to 60"});
}

TEST(Sampling, OfTemperatureZeroTakesTheFirstOfTheLargest) {
  Sampler sampler({.temperature = 0, .seed = 5});
  for (int i = 0; i < 9; ++i)
    EXPECT_EQ(sampler.next(Logits{1, 3, 3, 2}), 1);
}

std::vector<int> counts_of(const SamplerOptions& options, const Logits& logits, int draws = 20'000) {
  Sampler sampler(options);
  std::vector<int> counts(logits.size());
  for (int i = 0; i < draws; ++i)
    ++counts[static_cast<size_t>(sampler.next(logits))];
  return counts;
}

// Logits of the probabilities 0.4, 0.3, 0.2, 0.1, in another order. The bounds are ten standard deviations.
const Logits kLogits = {std::log(0.1f), std::log(0.4f), std::log(0.2f), std::log(0.3f)};

TEST(Sampling, DrawsByProbability) {
  const auto counts = counts_of({.seed = 1}, kLogits);
  const double expected[] = {2000, 8000, 4000, 6000};
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(counts[i], expected[i], 700) << i;
  const auto cold = counts_of({.temperature = 0.5, .seed = 1}, kLogits);  // probabilities squared: of 0.3
  EXPECT_NEAR(cold[1], 20'000 * 0.16 / 0.3, 700);
  const auto hot = counts_of({.temperature = 1e6, .seed = 1}, kLogits);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(hot[i], 5000, 700) << i;
}

TEST(Sampling, KeepsTheMostProbable) {
  const auto two = counts_of({.top_k = 2, .seed = 2}, kLogits);
  EXPECT_EQ(two[0] + two[2], 0);
  EXPECT_NEAR(two[1], 20'000 * 4 / 7, 700);
  EXPECT_EQ(counts_of({.top_k = 1, .seed = 2}, kLogits)[1], 20'000);
  EXPECT_EQ(counts_of({.top_k = 9, .seed = 2}, kLogits), counts_of({.seed = 2}, kLogits));
  const auto nucleus = counts_of({.top_p = 0.65, .seed = 2}, kLogits);
  EXPECT_EQ(nucleus[0] + nucleus[2], 0);
  EXPECT_GT(nucleus[3], 0);
  EXPECT_EQ(counts_of({.top_p = 0.39, .seed = 2}, kLogits)[1], 20'000);
  EXPECT_EQ(counts_of({.top_p = 0.5, .seed = 2}, Logits{1, 1})[0], 20'000) << "one of the two is enough";
  const auto alike = counts_of({.top_k = 2, .seed = 2}, Logits{1, 0, 1, 2});
  EXPECT_EQ(alike[1] + alike[2], 0) << "of equal ones the first is kept";
  const auto both = counts_of({.top_k = 2, .top_p = 0.5, .seed = 2}, kLogits);  // of the two kept, 4/7 is enough
  EXPECT_EQ(both[1], 20'000);
}

TEST(Sampling, DependsOnTheSeedAlone) {
  const auto drawn = [](uint64_t seed) {
    Sampler sampler({.seed = seed});
    Tokens tokens;
    for (int i = 0; i < 50; ++i)
      tokens.push_back(sampler.next(kLogits));
    return tokens;
  };
  EXPECT_EQ(drawn(7), drawn(7));
  EXPECT_NE(drawn(7), drawn(8));
}

TEST(Sampling, RefusesLogitsThatAreNotFinite) {
  Sampler sampler({.temperature = 0});
  expect_error([&] { sampler.next(Logits{1, NAN}); }, {"logits that are not finite"});
}

}  // namespace
}  // namespace tessera::testing
