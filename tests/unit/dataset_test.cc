#include "data/dataset.h"

#include <gtest/gtest.h>

#include "data/examples/example_dataset.h"
#include "data/token_dataset.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace tessera::host {
namespace {

using testing::expect_error;
using testing::TempFolder;

using Tokens = std::vector<int32_t>;
using Features = std::vector<float>;

std::unique_ptr<Dataset> open_examples_of(const std::string& path) {
  return example_dataset(open_examples(path, {{1, 3}, std::nullopt, DataScale::none}));
}

TEST(Dataset, TokensAreInputsAndTheirTargets) {
  const TempFolder folder;
  const auto data = token_dataset(open_tokens(folder.write("a.txt", "abcdefghijklm"), 256), 256);
  EXPECT_EQ(data->size(), (std::pair<std::string, std::string>{"tokens", "13"}));
  EXPECT_EQ(data->description(), folder.path("a.txt") + ": text, bytes are the tokens (13 tokens)");
  EXPECT_TRUE(data->fingerprint().starts_with("13 tokens, sha256 "));
  EXPECT_EQ(data->fingerprint().size(), std::string("13 tokens, sha256 ").size() + 16);
  const auto reader = data->reader({.batch = 2, .seq = 2, .data_ranks = 2});
  EXPECT_EQ(reader->read(1), (std::vector<InputValues>{Tokens{'e', 'f', 'g', 'h'}, Tokens{'f', 'g', 'h', 'i'}}));
  reader->advance();
  EXPECT_EQ(reader->read(0), (std::vector<InputValues>{Tokens{'a', 'b', 'c', 'd'}, Tokens{'b', 'c', 'd', 'e'}}))
      << "the second micro-step does not fit";
  expect_error([&] { data->reader({.batch = 2, .seq = 4, .data_ranks = 2}); }, {"is too short"});
}

TEST(Dataset, APassReadsEveryTokenOnce) {
  const TempFolder folder;
  const auto data = token_dataset(open_tokens(folder.write("a.txt", "abcdefghijklm"), 256), 256);
  EXPECT_EQ(data->num_predictions(), 12);
  EXPECT_TRUE(data->tokens_are_bytes());
  const auto pass = data->pass({.batch = 1, .seq = 5, .data_ranks = 2});
  EXPECT_EQ(pass->read(1),
            (std::vector<InputValues>{Tokens{'f', 'g', 'h', 'i', 'j'}, Tokens{'g', 'h', 'i', 'j', 'k'}}));
  pass->advance();
  EXPECT_EQ(pass->read(0), (std::vector<InputValues>{Tokens{'k', 'l', 0, 0, 0}, Tokens{'l', 'm', -1, -1, -1}}));
  EXPECT_EQ(pass->read(1), (std::vector<InputValues>{Tokens{0, 0, 0, 0, 0}, Tokens{-1, -1, -1, -1, -1}}));
  const auto one = token_dataset(open_tokens(folder.write("b.txt", "a"), 256), 256);
  expect_error([&] { one->pass({.batch = 1, .seq = 5}); }, {"is too short to be evaluated"});
}

TEST(Dataset, APassReadsEveryExampleOnceInItsOrder) {
  const TempFolder folder;
  const auto data = open_examples_of(folder.write("a.csv", "10,0\n11,1\n12,2\n"));
  EXPECT_EQ(data->num_predictions(), 3);
  EXPECT_FALSE(data->tokens_are_bytes());
  const auto pass = data->pass({.batch = 2, .data_ranks = 1, .seed = 5});
  EXPECT_EQ(pass->read(0), (std::vector<InputValues>{Features{10, 11}, Tokens{0, 1}}));
  pass->advance();
  EXPECT_EQ(pass->read(0), (std::vector<InputValues>{Features{12, 12}, Tokens{2, -1}}));
  pass->advance();
  EXPECT_EQ(pass->read(0), (std::vector<InputValues>{Features{12, 12}, Tokens{-1, -1}}));
}

TEST(Dataset, TokensWarnOfVocabularyAndLength) {
  const TempFolder folder;
  const auto data = token_dataset(open_tokens(folder.write("a.txt", "abcdefghijklm"), 50257), 50257);
  const auto warnings = data->warnings({.batch = 2, .seq = 2, .data_ranks = 2, .grad_accum = 1, .steps = 9});
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_NE(warnings[0].find("256 of the 50257 that the model knows"), std::string::npos);
  EXPECT_NE(warnings[1].find("every step trains on the same 8 of its 13 tokens"), std::string::npos);
}

TEST(Dataset, ExamplesAreFeaturesAndLabels) {
  const TempFolder folder;
  const auto data = open_examples_of(folder.write("a.csv", "10,0\n11,1\n12,2\n"));
  EXPECT_EQ(data->size(), (std::pair<std::string, std::string>{"examples", "3"}));
  EXPECT_TRUE(data->fingerprint().starts_with("3 examples, sha256 "));
  const auto reader = data->reader({.batch = 3, .data_ranks = 2, .order = DataOrder::shuffled, .seed = 5});
  const std::vector<InputValues> first = reader->read(0), second = reader->read(1);
  for (const auto& inputs : {first, second}) {
    ASSERT_EQ(inputs.size(), 2u);
    const auto& features = std::get<Features>(inputs[0]);
    const auto& labels = std::get<Tokens>(inputs[1]);
    ASSERT_EQ(features.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_EQ(features[i], 10 + static_cast<float>(labels[i]));
  }
  reader->advance();
  const auto of_other_seed = data->reader({.batch = 3, .data_ranks = 2, .order = DataOrder::shuffled, .seed = 6});
  of_other_seed->advance();
  EXPECT_NE(std::pair(reader->read(0), reader->read(1)), std::pair(of_other_seed->read(0), of_other_seed->read(1)));
}

TEST(Dataset, ExamplesWarnOfAStepThatTakesAll) {
  const TempFolder folder;
  const auto data = open_examples_of(folder.write("a.csv", "10,0\n11,1\n12,2\n"));
  EXPECT_EQ(data->warnings({.batch = 1, .data_ranks = 2, .grad_accum = 1, .steps = 1}).size(), 0u);
  EXPECT_EQ(data->warnings({.batch = 1, .data_ranks = 2, .grad_accum = 2, .steps = 1}).size(), 1u);
  EXPECT_EQ(data->warnings({.batch = 1, .data_ranks = 2, .grad_accum = 2}).size(), 0u) << "an evaluation";
}

}  // namespace
}  // namespace tessera::host
