// The matrix that the kernels of rows work on.
#pragma once

#include "tessera/op_slots.hpp"

namespace tessera::cuda {

/// A row-major [rows, columns] of values of `dtype`.
struct ValueMatrix {
  tsr_dtype dtype;
  uint64_t rows, columns;
};

/// The rows of an op on hidden states [rows, EMBED].
inline ValueMatrix embed_rows(const tsr_op& op) {
  return {op.dtype, op::num_rows(op), op::extent(op, TSR_DIM_EMBED)};
}

}  // namespace tessera::cuda
