// Exact sums of squares of float32 gradients. A warp takes 1024 elements at a time: their squares are split into parts
// that float64 adds without rounding, in any order, and the two sums go to the warp's limbs.
//
// The same method as cpu-device's (sum_squares.cc), and as both are exact, the same bits. Limbs are kept a warp in
// shared memory and added to the op's by atomics at the end: integers, so in any order. Without the windows each
// element would be three atomics on a few addresses.
#include <algorithm>
#include <bit>

#include "cuda-device/context.h"
#include "cuda-device/kernels/accumulator.cuh"
#include "cuda-device/kernels/alignment.h"
#include "cuda-device/kernels/op_table.h"
#include "cuda-device/kernels/step/quad.cuh"
#include "cuda-device/kernels/warp.cuh"
#include "tessera/op_slots.hpp"

namespace tessera::cuda {
namespace {

constexpr unsigned kNumWarps = 8, kQuads = 8;
constexpr unsigned kElements = 4 * kQuads;  // of a thread
constexpr unsigned kWarpElements = kWarpSize * kElements;
static_assert(kNumWarps * kWarpElements == kChunkElements);
constexpr unsigned kMaxBlocks = 1024;  // each adds to the same few limbs in the end

constexpr uint32_t kMagnitude = 0x7fffffffu;  // a float's bits without the sign
constexpr uint32_t kInfinity = 0x7f800000u;
constexpr uint32_t kWindowExponents = 20;

__device__ uint32_t magnitude_of(float x) {
  return std::bit_cast<uint32_t>(x) & kMagnitude;
}

template <class T>
__device__ T warp_sum(T x) {
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2)
    x += __shfl_xor_sync(0xffffffffu, x, distance);
  return x;
}

/// The largest magnitude below `bound` in the warp; 0 if there is none.
__device__ uint32_t largest_magnitude(const float (&x)[kElements], uint32_t bound) {
  uint32_t largest = 0;
#pragma unroll
  for (unsigned k = 0; k < kElements; ++k) {
    const uint32_t magnitude = magnitude_of(x[k]);
    if (magnitude < bound && magnitude > largest) largest = magnitude;
  }
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2)
    largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
  return largest;
}

// The squares of the warp's elements with magnitudes in [first, bound), all of whose exponents lie in (exponent - 20,
// exponent], are below 2^q, q = 2 (exponent - 127) + 2. Adding and subtracting `splitter` rounds a square to a multiple
// of 2^(q-42), its high part; 1024 of them sum to at most 2^(q+10), 52 bits. The low parts are at most 2^(q-43) each,
// 2^(q-33) in sum, and multiples of the last bit of the smallest square, at least 2^(q-86), 53 bits. So nothing rounds.
__device__ void add_window(const float (&x)[kElements], uint32_t first, uint32_t bound, uint32_t exponent,
                           int64_t* limbs) {
  const int q = 2 * (static_cast<int>(exponent) - 127) + 2;
  const auto splitter = std::bit_cast<double>(static_cast<uint64_t>(1023 + q - 42 + 52) << 52 | uint64_t{1} << 51);
  double high = 0, low = 0;
#pragma unroll
  for (unsigned k = 0; k < kElements; ++k) {
    const uint32_t magnitude = magnitude_of(x[k]);
    const double wide = magnitude >= first && magnitude < bound ? x[k] : 0;
    const double square = wide * wide, part = (square + splitter) - splitter;
    high += part;
    low += square - part;
  }
  high = warp_sum(high);
  low = warp_sum(low);
  if (threadIdx.x % kWarpSize != 0) return;
  const AccumulatorView view(limbs, TSR_ACCUMULATOR_LIMBS);
  accumulate(view, high);
  accumulate(view, low);
}

/// Adds the squares of the warp's elements to its `limbs`.
__device__ void add_squares(const float (&x)[kElements], int64_t* limbs) {
  uint32_t bound = kInfinity, magnitude = largest_magnitude(x, kMagnitude + 1);
  if (magnitude >= kInfinity) {
    int not_finite = 0;
#pragma unroll
    for (unsigned k = 0; k < kElements; ++k)
      not_finite += magnitude_of(x[k]) >= kInfinity;
    not_finite = warp_sum(not_finite);
    if (threadIdx.x % kWarpSize == 0) limbs[0] += not_finite;
    magnitude = largest_magnitude(x, bound);
  }
  while (magnitude != 0) {  // from the largest exponents down; nearly always one window holds all
    const uint32_t exponent = max(magnitude >> 23, 1u);
    const uint32_t first = exponent > kWindowExponents ? (exponent - kWindowExponents + 1) << 23 : 0;
    add_window(x, first, bound, exponent, limbs);
    bound = first;
    magnitude = largest_magnitude(x, bound);
  }
}

__global__ void __launch_bounds__(kNumWarps* kWarpSize)
    sum_squares(const op::Chunk* chunks, uint64_t num_chunks, const float* source, bool aligned, int64_t* limbs) {
  __shared__ int64_t of_warps[kNumWarps][TSR_ACCUMULATOR_LIMBS];
  for (unsigned k = threadIdx.x; k < kNumWarps * TSR_ACCUMULATOR_LIMBS; k += blockDim.x)
    of_warps[k / TSR_ACCUMULATOR_LIMBS][k % TSR_ACCUMULATOR_LIMBS] = 0;
  __syncthreads();
  const unsigned warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
  for (uint64_t t = blockIdx.x; t < num_chunks; t += gridDim.x) {
    const op::Chunk chunk = chunks[t];
    const uint64_t first = chunk.begin / 4 * 4 + warp * kWarpElements + 4 * lane;
    float x[kElements];
#pragma unroll
    for (unsigned j = 0; j < kQuads; ++j)
      Quad{chunk, first + j * 4 * kWarpSize, aligned}.load(source, x + 4 * j);
    add_squares(x, of_warps[warp]);
  }
  __syncthreads();
  for (unsigned k = threadIdx.x; k < TSR_ACCUMULATOR_LIMBS; k += blockDim.x) {
    int64_t sum = 0;
    for (unsigned w = 0; w < kNumWarps; ++w)
      sum += of_warps[w][k];
    if (sum != 0) atomic_add(limbs + k, sum);
  }
}

class SumSquares final : public Kernel {
 public:
  SumSquares(const tsr_op& op, std::span<const tsr_slot_spec> slots)
      : SumSquares(op::chunks_of(op, kChunkElements, kQuadElements), slots) {}

  void launch(cudaStream_t stream, void* const* pointers) override {
    int64_t* limbs = accumulator_.begin(stream, pointers);
    const auto* source = source_.in<const float>(pointers);
    const auto num_blocks = static_cast<unsigned>(std::min<uint64_t>(num_chunks_, kMaxBlocks));
    cuda::launch(sum_squares, num_blocks, kNumWarps * kWarpSize, 0, stream, chunks_.as<op::Chunk>(), num_chunks_,
                 source, starts_at_multiple(source, 16), limbs);
    accumulator_.end(stream, pointers);
  }

 private:
  SumSquares(const std::vector<op::Chunk>& chunks, std::span<const tsr_slot_spec> slots)
      : source_(op::find_operand(slots, TSR_ROLE_SOURCE, 0)),
        accumulator_(slots, TSR_SCALAR_ACCUMULATOR),
        num_chunks_(chunks.size()),
        chunks_(std::as_bytes(std::span(chunks))) {}

  const op::Operand source_;
  const AccumulatorOperand accumulator_;
  const uint64_t num_chunks_;
  const DeviceTable chunks_;
};

std::unique_ptr<Kernel> prepare(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context&) {
  return std::make_unique<SumSquares>(op, slots);
}

}  // namespace

const OpImpl kSumSquares{op::step_slots, prepare};

}  // namespace tessera::cuda
