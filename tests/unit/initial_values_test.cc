#include "model/initial_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "model/gpt2/gpt2.h"
#include "model/philox.h"
#include "support/expect_error.h"

namespace tessera::host {
namespace {

using testing::expect_error;

constexpr int64_t kNumLayers = 3;

InitialValues gpt2_values(uint64_t seed, int num_threads = 1) {
  static const Model model =
      make_gpt2({.num_layers = kNumLayers, .num_heads = 2, .embed = 8, .vocab = 16, .positions = 4, .ffn = 32}, {});
  return InitialValues(seed, model.parameters, num_threads);
}

std::vector<float> read(const ParameterSource& source, std::string_view name, uint64_t offset,
                        std::size_t num_elements) {
  std::vector<float> out(num_elements, NAN);
  source.read(name, offset, out);
  return out;
}

double deviation(const std::vector<float>& values) {
  double square = 0;
  for (const float value : values)
    square += double{value} * value;
  return std::sqrt(square / static_cast<double>(values.size()));
}

TEST(InitialValues, WeightsHaveGpt2sDeviations) {
  const InitialValues source = gpt2_values(1337);
  const std::size_t n = 200'000;  // standard error of a deviation: 0.16 %
  for (const char* name : {"wte.weight", "wpe.weight", "h.0.attn.c_attn.weight", "h.2.mlp.c_fc.weight"}) {
    EXPECT_NEAR(deviation(read(source, name, 0, n)), 0.02, 0.02 * 0.008) << name;
  }
  const double residual = 0.02 / std::sqrt(2.0 * kNumLayers);
  for (const char* name : {"h.1.attn.c_proj.weight", "h.2.mlp.c_proj.weight"}) {
    EXPECT_NEAR(deviation(read(source, name, 0, n)), residual, residual * 0.008) << name;
  }
}

TEST(InitialValues, BiasesAreZeroAndNormsOne) {
  const InitialValues source = gpt2_values(1337);
  for (const char* name : {"h.0.ln_1.weight", "h.2.ln_2.weight", "ln_f.weight"}) {
    EXPECT_EQ(read(source, name, 5, 9), std::vector<float>(9, 1.0f)) << name;
  }
  for (const char* name : {"h.0.ln_1.bias", "h.1.attn.c_attn.bias", "h.1.attn.c_proj.bias", "h.2.mlp.c_fc.bias",
                           "h.2.mlp.c_proj.bias", "h.0.ln_2.bias", "ln_f.bias"}) {
    EXPECT_EQ(read(source, name, 5, 9), std::vector<float>(9, 0.0f)) << name;
  }
}

TEST(InitialValues, DoNotDependOnTheCut) {
  const InitialValues source = gpt2_values(7);
  const std::vector<float> whole = read(source, "h.0.mlp.c_proj.weight", 0, 101);
  std::vector<float> joined;
  for (std::size_t begin = 0; begin < 101; begin += 7) {
    const std::vector<float> part = read(source, "h.0.mlp.c_proj.weight", begin, std::min<std::size_t>(7, 101 - begin));
    joined.insert(joined.end(), part.begin(), part.end());
  }
  EXPECT_EQ(joined, whole);
  EXPECT_NE(read(source, "h.1.mlp.c_proj.weight", 0, 101), whole) << "layers start alike";
  EXPECT_NE(read(gpt2_values(8), "h.0.mlp.c_proj.weight", 0, 101), whole) << "seeds start alike";
}

TEST(InitialValues, DoNotDependOnTheNumberOfThreads) {
  const char* name = "h.0.mlp.c_proj.weight";
  const std::vector<float> alone = read(gpt2_values(7), name, 3, 100'003);
  for (const int num_threads : {0, 2, 3, 100})
    EXPECT_EQ(read(gpt2_values(7, num_threads), name, 3, 100'003), alone) << num_threads;
}

TEST(InitialValues, RefuseAnUnknownName) {
  const InitialValues source = gpt2_values(1);
  for (const char* name : {"lm_head.weight", "h.0.attn.bias", "wte.bias", "h.3.ln_1.weight", "h.", "h.0", ""}) {
    expect_error([&] { read(source, name, 0, 1); }, {"the model has no parameter", name});
  }
}

}  // namespace
}  // namespace tessera::host
