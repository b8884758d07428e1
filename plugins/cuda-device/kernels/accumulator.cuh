// Exact sums (tessera/accumulator.hpp) by many threads: integers are added in any order. Included by .cu files only.
#pragma once

#include <cuda_runtime.h>

#include "cuda-device/cuda_error.h"
#include "cuda-device/kernels/launch.h"
#include "tessera/accumulator.hpp"
#include "tessera/operands.hpp"

namespace tessera::cuda {

/// *to += value, by any number of threads at once; in shared or global memory.
__device__ inline void atomic_add(int64_t* to, int64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}

/// Adds `value`, as split takes it, to limbs that other threads add to as well. What is not 0 costs up to three
/// atomics.
__device__ inline void atomic_accumulate(int64_t* limbs, double value) {
  const LimbParts parts = split(value);
  for (int j = 0; j < 3; ++j)
    if (parts.part[j] != 0) atomic_add(limbs + parts.limb + j, parts.part[j]);
}

/// Adds limbs that a block gathered in shared memory, not necessarily carried, to those of the op. Called by all
/// threads of the block, after a __syncthreads.
__device__ inline void atomic_accumulate_block(int64_t* limbs, const int64_t* of_block) {
  for (unsigned k = threadIdx.x; k < TSR_ACCUMULATOR_LIMBS; k += blockDim.x)
    if (of_block[k] != 0) atomic_add(limbs + k, of_block[k]);
}

/// An op's accumulator in a launch: what is enqueued between begin and end adds to it by atomics.
class AccumulatorOperand {
 public:
  AccumulatorOperand(std::span<const tsr_slot_spec> slots, uint32_t scalar)
      : operand_(op::find_operand(slots, TSR_ROLE_SCALAR, scalar)) {}

  /// The limbs; zeroed first unless the op adds to them.
  int64_t* begin(cudaStream_t stream, void* const* pointers) const;
  /// Carries them.
  void end(cudaStream_t stream, void* const* pointers) const;

 private:
  op::Operand operand_;
};

}  // namespace tessera::cuda
