// A parameter's rule is its model's; a value follows from seed, name and index, so each rank makes the elements it owns
// and no others.

#include "model/initial_values.h"

#include <algorithm>

#include "base/concat.h"
#include "model/philox.h"
#include "tessera/error.hpp"

namespace tessera::host {

InitialValues::InitialValues(uint64_t seed, std::span<const Parameter> parameters) : seed_(seed) {
  for (const Parameter& parameter : parameters)
    rules_.emplace(parameter.name, parameter.initial);
}

void InitialValues::read(std::string_view parameter, uint64_t offset, std::span<float> out) const {
  const auto found = rules_.find(parameter);
  if (found == rules_.end())
    throw Error(TSR_E_NOT_FOUND, concat("the model has no parameter ", parameter, ", so it has no initial value"));
  const InitialRule& rule = found->second;
  if (rule.standard_deviation == 0.0f) {
    std::fill(out.begin(), out.end(), rule.mean);
    return;
  }
  fill_normal(seed_, parameter, offset, out);
  for (float& value : out)
    value = rule.mean + rule.standard_deviation * value;
}

}  // namespace tessera::host
