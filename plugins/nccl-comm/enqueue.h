// Translates a collective into NCCL calls.
#pragma once

#include <cuda_runtime_api.h>

#include "nccl-comm/library.h"
#include "tessera/collective.hpp"

namespace tessera::nccl_comm {

/// The dtypes of the ABI that NCCL supports; for caps.
inline constexpr tsr_dtype kDtypes[] = {TSR_I8, TSR_I32, TSR_I64, TSR_U8, TSR_U32, TSR_F16, TSR_F32, TSR_F64, TSR_BF16};

/// The communicator and stream that a collective is enqueued on.
struct Target {
  const Library& nccl;
  ncclComm_t comm;
  int rank;  // coordinate in the group
  int num_ranks;
  void* scratch;  // 4 bytes of the GPU's memory, for barriers
  cudaStream_t stream;
};

/// Enqueues the collective; it is on the stream only once the communicator is no longer in progress. NCCL's counts are
/// equal on all ranks, so uneven slices become a group of broadcasts or reductions, one per slice: the bytes of a ring,
/// as with equal slices, whereas sends between all pairs would send each slice n - 1 times out of its machine. Empty
/// slices and messages are left out. Returns the first error, or ncclSuccess. [issue-thread]
ncclResult_t enqueue(const Target& target, const Collective& collective);

}  // namespace tessera::nccl_comm
