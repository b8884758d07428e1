// A parameter's rule is its model's; a value follows from seed, name and index, so each rank makes the elements it owns
// and no others.

#include "model/initial_values.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "base/concat.h"
#include "model/philox.h"
#include "tessera/error.hpp"

namespace tessera::host {

namespace {

constexpr uint64_t kMinOfAThread = 1 << 14;  // made in half a millisecond; a thread starts in a tenth of that

void make(uint64_t seed, std::string_view parameter, const InitialRule& rule, uint64_t offset, std::span<float> out) {
  fill_normal(seed, parameter, offset, out);
  for (float& value : out)
    value = rule.mean + rule.standard_deviation * value;
}

}  // namespace

InitialValues::InitialValues(uint64_t seed, std::span<const Parameter> parameters, int num_threads)
    : seed_(seed), num_threads_(static_cast<uint64_t>(std::max(1, num_threads))) {
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
  const uint64_t share = std::max(kMinOfAThread, (out.size() + num_threads_ - 1) / num_threads_);
  std::vector<std::jthread> others;
  for (uint64_t begin = share; begin < out.size(); begin += share)
    others.emplace_back([=, this, &rule, part = out.subspan(begin, std::min(share, out.size() - begin))] {
      make(seed_, parameter, rule, offset + begin, part);
    });
  make(seed_, parameter, rule, offset, out.first(std::min<uint64_t>(share, out.size())));
}

}  // namespace tessera::host
