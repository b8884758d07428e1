// Ops and slots in few words, for tests of devices.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/device.h"

namespace tessera::testing {

/// An elementwise or step op over `num_elements`.
inline tsr_op make_op(uint32_t kind, uint64_t num_elements, tsr_dtype dtype = TSR_F32,
                      tsr_dtype destination = TSR_F32) {
  tsr_op op{};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.dtype = dtype;
  op.gradient_dtype = TSR_F32;
  if (kind == TSR_OP_CAST) op.destination_dtype = destination;
  op.dims[TSR_DIM_ELEMENTS] = static_cast<int64_t>(num_elements);
  return op;
}

}  // namespace tessera::testing
