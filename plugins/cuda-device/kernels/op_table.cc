// From TSR_OP_* to its implementation.
#include "cuda-device/kernels/op_table.h"

#include "tessera/error.hpp"

namespace tessera::cuda {

const OpImpl& implementation_of(const tsr_op& op) {
  switch (op.kind) {
#define TESSERA_CASE_OP(kind, implementation) \
  case kind:                                  \
    return implementation;
    TESSERA_CUDA_OPS(TESSERA_CASE_OP)
#undef TESSERA_CASE_OP
    default:
      throw Error(TSR_E_UNSUPPORTED, "this device does not compute op " + op::op_name(op.kind));
  }
}

}  // namespace tessera::cuda
