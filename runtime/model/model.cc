// The layout of units: trainable parameters first, then frozen ones, each on a multiple of 128 elements. That is 256
// bytes in 16 bits and 512 in float32, enough for aligned vector access in every dtype.

#include "model/model.h"

#include <algorithm>

#include "tessera/error.hpp"

namespace tessera::host {

std::vector<int64_t> Parameter::shape() const {
  std::vector<int64_t> result;
  for (const tsr_dim& dim : dims)
    result.push_back(dim.extent);
  return result;
}

int Model::parameter(std::string_view name) const {
  const auto found = std::ranges::find(parameters, name, &Parameter::name);
  if (found == parameters.end()) throw Error(TSR_E_NOT_FOUND, "the model has no parameter " + std::string(name));
  return static_cast<int>(found - parameters.begin());
}

int Model::segment(std::string_view name) const {
  const auto found = std::ranges::find(segments, name, &Segment::name);
  if (found == segments.end()) throw Error(TSR_E_NOT_FOUND, "the model has no segment " + std::string(name));
  return static_cast<int>(found - segments.begin());
}

std::vector<int> Model::inputs() const {
  std::vector<int> inputs;
  for (size_t v = 0; v < values.size(); ++v)
    if (values[v].kind != TSR_VALUE_ACTIVATION) inputs.push_back(static_cast<int>(v));
  return inputs;
}

int Model::num_blocks() const {
  int last = -1;
  for (const Segment& segment : segments)
    last = std::max(last, segment.block);
  return last + 1;
}

uint64_t Model::num_parameter_elements() const {
  uint64_t sum = 0;
  for (const Parameter& parameter : parameters)
    sum += parameter.num_elements;
  return sum;
}

uint64_t Model::num_trainable_elements() const {
  uint64_t sum = 0;
  for (const Parameter& parameter : parameters)
    if (parameter.trainable) sum += parameter.num_elements;
  return sum;
}

void lay_out_units(Model& model) {
  for (Unit& unit : model.units) {
    std::stable_partition(unit.parameters.begin(), unit.parameters.end(),
                          [&](int p) { return model.parameters[p].trainable; });
    uint64_t offset = 0;
    for (int p : unit.parameters) {
      model.parameters[p].unit_offset = offset;
      offset += model.parameters[p].padded_elements();
    }
    unit.num_elements = offset;
  }
}

}  // namespace tessera::host
