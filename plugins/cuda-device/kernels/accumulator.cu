// The ends of an exact sum: limbs are zeroed before the first addition unless the op adds to them, and carried after
// the last, so that equal sums have equal limbs. One thread carries: 20 limbs, one after another.
#include "cuda-device/kernels/accumulator.cuh"

namespace tessera::cuda {
namespace {

__global__ void carry_limbs(int64_t* limbs) {
  carry(AccumulatorView(limbs, TSR_ACCUMULATOR_LIMBS));
}

}  // namespace

int64_t* AccumulatorOperand::begin(cudaStream_t stream, void* const* pointers) const {
  auto* limbs = operand_.in<int64_t>(pointers);
  if (!operand_.accumulates)
    check(cudaMemsetAsync(limbs, 0, TSR_ACCUMULATOR_LIMBS * sizeof(int64_t), stream), "zeroing an accumulator");
  return limbs;
}

void AccumulatorOperand::end(cudaStream_t stream, void* const* pointers) const {
  launch(carry_limbs, 1, 1, 0, stream, operand_.in<int64_t>(pointers));
}

}  // namespace tessera::cuda
