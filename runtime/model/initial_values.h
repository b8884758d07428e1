// Initial values of parameters, made element by element from the seed.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "model/parameter_source.h"

namespace tessera::host {

/// How a parameter starts: mean + standard_deviation * normal number. A deviation of 0 gives the constant `mean`.
struct InitialRule {
  float mean = 0;
  float standard_deviation = 0;
};

/// GPT-2's initialisation by parameter name: weights normal(0, 0.02), those of the projections into the residual
/// stream (`c_proj.weight`) divided by sqrt(2 num_layers), biases 0, weights of norms 1. Throws NOT_FOUND for a name
/// that GPT-2 does not have.
InitialRule gpt2_initial_rule(std::string_view parameter, int64_t num_layers);

/// The source of a new model. The value of an element depends on seed, parameter name and element index only.
class InitialValues : public ParameterSource {
 public:
  /// `rule` gives the rule of a parameter, or throws NOT_FOUND; it must be callable from any thread.
  InitialValues(uint64_t seed, std::function<InitialRule(std::string_view)> rule);

  void read(std::string_view parameter, uint64_t offset, std::span<float> out) const override;

 private:
  uint64_t seed_;
  std::function<InitialRule(std::string_view)> rule_;
};

}  // namespace tessera::host
