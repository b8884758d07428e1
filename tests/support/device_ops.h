// Ops and slots in few words, for tests of devices.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tessera/device.h"
#include "tessera/op_table.hpp"

namespace tessera::testing {

/// num_elements values of a normal distribution with this standard deviation, by `seed`.
inline std::vector<float> normal_floats(size_t num_elements, uint32_t seed, float deviation) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(num_elements);
  for (float& value : values)
    value = normal(random);
  return values;
}

/// An elementwise or step op over `num_elements`; `other_dtype` is the destination's of a cast, else of gradients.
inline tsr_op make_op(uint32_t kind, uint64_t num_elements, tsr_dtype dtype = TSR_F32,
                      tsr_dtype other_dtype = TSR_F32) {
  tsr_op op{};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.dtype = dtype;
  (kind == TSR_OP_CAST ? op.destination_dtype : op.gradient_dtype) = other_dtype;
  op.dims[TSR_DIM_ELEMENTS] = static_cast<int64_t>(num_elements);
  return op;
}

/// The op without the attributes and extents that ops of its kind do not have: a device would refuse them.
inline tsr_op known_part(tsr_op op) {
  const op::OpEntry& entry = *op::find_op(op.kind);
  for (int i = 0; i < TSR_NUM_DIMS; ++i)
    if (!(entry.dims >> i & 1)) op.dims[i] = 0;
  for (int i = 0; i < TSR_NUM_ATTRIBUTES; ++i)
    if (!(entry.attributes >> i & 1)) op.attributes[i] = 0;
  return op;
}

}  // namespace tessera::testing
