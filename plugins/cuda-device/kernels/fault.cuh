// How a kernel reports an error in the data. Included by .cu files only.
#pragma once

#include <cuda_runtime.h>

#include "cuda-device/context.h"

namespace tessera::cuda {

/// Records that `value` at `position` is not in [0, limit).
__device__ inline void report(Fault* fault, int code, int value, long long position, long long limit) {
  if (atomicAdd(&fault->num_found, 1u) > 0) return;
  volatile Fault* const to = fault;
  to->value = value;
  to->position = position;
  to->limit = limit;
  __threadfence_system();  // the host reads it
  to->code = code;
}

}  // namespace tessera::cuda
