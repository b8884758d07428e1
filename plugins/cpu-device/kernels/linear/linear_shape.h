// The extents and attributes of a linear op, whatever its dtype.
#pragma once

#include <cstdint>

#include "cpu-device/kernels/operands.h"

namespace tessera::cpu {

/// act([rows, in] x [in, out] + bias).
struct LinearShape {
  explicit LinearShape(const tsr_op& op)
      : rows(num_rows(op)),
        in(extent(op, TSR_DIM_IN)),
        out(extent(op, TSR_DIM_OUT)),
        activation(op::activation_of(op)),
        has_bias(op.attributes[TSR_ATTR_HAS_BIAS] != 0.0) {}

  uint64_t rows, in, out;
  op::Activation activation;
  bool has_bias;
};

}  // namespace tessera::cpu
