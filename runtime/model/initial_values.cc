// GPT-2's initialisation (Radford et al. 2019): the weights of the two projections into the residual stream are divided
// by sqrt(2 layers), the number of addends of the stream, so that its variance does not grow with depth. A rule is
// found by name, and a value by seed, name and index, so each rank makes the elements it owns and no others.

#include "model/initial_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/concat.h"
#include "model/philox.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr float kWeightDeviation = 0.02f;

// "h.12.attn.c_attn.weight" -> "attn.c_attn.weight"; other names unchanged.
std::string_view without_block(std::string_view parameter) {
  if (!parameter.starts_with("h.")) return parameter;
  const std::size_t end = parameter.find('.', 2);
  return end == std::string_view::npos ? parameter : parameter.substr(end + 1);
}

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::array<std::string_view, 4> kWeights{"wte.weight", "wpe.weight", "attn.c_attn.weight", "mlp.c_fc.weight"};
constexpr std::array<std::string_view, 2> kResidualWeights{"attn.c_proj.weight", "mlp.c_proj.weight"};
constexpr std::array<std::string_view, 3> kNormWeights{"ln_1.weight", "ln_2.weight", "ln_f.weight"};
constexpr std::array<std::string_view, 7> kBiases{
    "attn.c_attn.bias", "attn.c_proj.bias", "mlp.c_fc.bias", "mlp.c_proj.bias", "ln_1.bias", "ln_2.bias", "ln_f.bias"};

}  // namespace

InitialRule gpt2_initial_rule(std::string_view parameter, int64_t num_layers) {
  const std::string_view name = without_block(parameter);
  if (contains(kWeights, name)) return {0.0f, kWeightDeviation};
  if (contains(kResidualWeights, name)) {
    return {0.0f, kWeightDeviation / std::sqrt(2.0f * static_cast<float>(num_layers))};
  }
  if (contains(kNormWeights, name)) return {1.0f, 0.0f};
  if (contains(kBiases, name)) return {0.0f, 0.0f};
  throw Error(TSR_E_NOT_FOUND, concat("GPT-2 has no parameter ", parameter, ", so it has no initial value"));
}

InitialValues::InitialValues(uint64_t seed, std::function<InitialRule(std::string_view)> rule)
    : seed_(seed), rule_(std::move(rule)) {}

void InitialValues::read(std::string_view parameter, uint64_t offset, std::span<float> out) const {
  const InitialRule rule = rule_(parameter);
  if (rule.standard_deviation == 0.0f) {
    std::fill(out.begin(), out.end(), rule.mean);
    return;
  }
  fill_normal(seed_, parameter, offset, out);
  for (float& value : out)
    value = rule.mean + rule.standard_deviation * value;
}

}  // namespace tessera::host
