// Softmax cross-entropy over rows of 50257 logits and their gradient in place: what the loss costs beside its products.
//
//     pass 1   read the row; each thread keeps a running maximum and sum (softmax.cuh); one reduction over the block
//     loss     log(sum) + max - target's logit, added exactly by one thread
//     pass 2   scale (softmax - one at the target), written over the logits
//
// Bound by memory: a row read once and written once is the least. The first pass keeps the raw vectors in shared memory
// as far as there is room, which on Hopper is a whole row in 16 bits; the second finds the rest in the L2 cache. Which
// thread has which vector depends on the row's length alone, and so do the sums.
#include "cuda-device/kernels/loss/chunk_loss.cuh"

#include <algorithm>
#include <cub/block/block_reduce.cuh>

#include "cuda-device/kernels/fault.cuh"
#include "cuda-device/kernels/launch.h"
#include "cuda-device/kernels/softmax.cuh"
#include "cuda-device/kernels/vectors.cuh"

namespace tessera::cuda {

struct CrossEntropyArguments {
  void* logits;
  const int32_t* targets;
  uint64_t first;
  unsigned vocabulary, vectors_of_row, num_kept;
  GradientScale scale;
  int64_t* loss;
  Fault* fault;
};

namespace {

constexpr unsigned kManyThreads = 512, kFewThreads = 128;
constexpr unsigned kThreadsOfMultiprocessor = 1024;
constexpr int kBatch = 4;  // loads of a thread under way

/// What all threads of a block need to know of their row.
struct Row {
  float max;
  float factor;  // scale / sum, of e^(x - max) in the gradient
  float scale;
};

template <int kThreads>
struct Shared {
  typename cub::BlockReduce<MaxAndSum, kThreads>::TempStorage reduce;
  Row row;
};

/// The vector's logits; padding is -infinity.
template <class T>
__device__ inline void unpack_logits(uint4 bits, unsigned vector, unsigned vocabulary, float (&x)[kNumLanes<T>]) {
  constexpr unsigned kNum = kNumLanes<T>;
  unpack<T>(bits, x);
  if ((vector + 1) * kNum <= vocabulary) return;
#pragma unroll
  for (unsigned j = 0; j < kNum; ++j)
    if (vector * kNum + j >= vocabulary) x[j] = -INFINITY;
}

// One block a row. The first pass keeps what it reads, as far as there is shared memory; the second finds the rest in
// the L2 cache.
template <bool kDifferentiates, int kThreads, class T>
__global__ void __launch_bounds__(kThreads, kThreadsOfMultiprocessor / kThreads)
    cross_entropy(CrossEntropyArguments a) {
  constexpr int kNum = kNumLanes<T>;
  __shared__ Shared<kThreads> shared;
  auto* const kept = dynamic_shared<uint4>();
  auto* const logits = static_cast<T*>(a.logits);
  const uint64_t row = blockIdx.x, first = row * a.vectors_of_row;
  const int target = a.targets[row];
  const bool is_predicted = target != TSR_NO_TARGET;
  const bool is_token = target >= 0 && static_cast<unsigned>(target) < a.vocabulary;
  const float target_logit = threadIdx.x == 0 && is_token ? to_float(logits[first * kNum + target]) : 0.0f;

  MaxAndSum part;
  for (unsigned begin = threadIdx.x; begin < a.vectors_of_row; begin += kBatch * kThreads) {
    uint4 bits[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b)
      if (const unsigned v = begin + b * kThreads; v < a.vectors_of_row)
        bits[b] = reinterpret_cast<const uint4*>(logits)[first + v];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const unsigned v = begin + b * kThreads;
      if (v >= a.vectors_of_row) break;
      if (kDifferentiates && v < a.num_kept) kept[v] = bits[b];
      float x[kNum];
      unpack_logits<T>(bits[b], v, a.vocabulary, x);
      part.add(x);
    }
  }
  const MaxAndSum whole = cub::BlockReduce<MaxAndSum, kThreads>(shared.reduce).Reduce(part, Combine{});
  if (threadIdx.x == 0) {
    const double scale = a.scale.value();
    shared.row = {whole.max, static_cast<float>(scale / double{whole.sum}), static_cast<float>(scale)};
  }
  __syncthreads();
  if (threadIdx.x == 0 && is_token) atomic_accumulate(a.loss, row_loss(whole.max, whole.sum, target_logit));
  if (threadIdx.x == 0 && is_predicted && !is_token)
    report(a.fault, kFaultTarget, target, static_cast<long long>(a.first + row), a.vocabulary);
  if constexpr (!kDifferentiates) return;

  const Row of_row = shared.row;
  const unsigned target_vector = is_token ? target / kNum : ~0u;
  for (unsigned v = threadIdx.x; v < a.vectors_of_row; v += kThreads) {
    float x[kNum];
    unpack_logits<T>(v < a.num_kept ? kept[v] : reinterpret_cast<const uint4*>(logits)[first + v], v, a.vocabulary, x);
#pragma unroll
    for (float& value : x)
      value = is_predicted ? shifted_exp(value, of_row.max) * of_row.factor : 0.0f;
    if (v == target_vector) {
#pragma unroll
      for (int j = 0; j < kNum; ++j)
        if (j == target % kNum) x[j] -= of_row.scale;
    }
    store<kNum>(x, logits, first + v);
  }
}

template <int kThreads>
uint64_t shared_bytes_to_keep(const cudaDeviceProp& device) {
  const uint64_t num_blocks = kThreadsOfMultiprocessor / kThreads;
  const uint64_t own = sizeof(Shared<kThreads>) + device.reservedSharedMemPerBlock;
  const uint64_t fair = device.sharedMemPerMultiprocessor / num_blocks;
  const uint64_t limit = std::min<uint64_t>(fair, device.sharedMemPerBlockOptin);
  return limit > own ? limit - own : 0;
}

struct Choice {
  void (*kernel)(CrossEntropyArguments);
  unsigned num_threads;
  uint64_t shared_bytes;
};

template <bool kDifferentiates, class T>
Choice choose(uint64_t vectors_of_row, const cudaDeviceProp& device) {
  if (vectors_of_row <= kFewThreads * kBatch)
    return {cross_entropy<kDifferentiates, kFewThreads, T>, kFewThreads, shared_bytes_to_keep<kFewThreads>(device)};
  return {cross_entropy<kDifferentiates, kManyThreads, T>, kManyThreads, shared_bytes_to_keep<kManyThreads>(device)};
}

}  // namespace

CrossEntropy::CrossEntropy(tsr_dtype dtype, uint64_t vocabulary, uint64_t width, bool differentiates, Context& context)
    : vocabulary_(vocabulary), vectors_of_row_(TSR_NUM_BYTES(dtype, width) / kVectorBytes), fault_(context.fault()) {
  const Choice choice = with_value_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    return differentiates ? choose<true, T>(vectors_of_row_, context.properties())
                          : choose<false, T>(vectors_of_row_, context.properties());
  });
  kernel_ = choice.kernel;
  num_threads_ = choice.num_threads;
  num_kept_ = differentiates ? static_cast<unsigned>(std::min(vectors_of_row_, choice.shared_bytes / kVectorBytes)) : 0;
  // The most there is, whatever this vocabulary needs: the attribute is the kernel's, which other plans share.
  check(
      cudaFuncSetAttribute(kernel_, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(choice.shared_bytes)),
      "cudaFuncSetAttribute for the shared memory of a row of logits");
}

void CrossEntropy::launch(cudaStream_t stream, const CrossEntropyRows& rows) const {
  const CrossEntropyArguments arguments{rows.logits,
                                        rows.targets,
                                        rows.first,
                                        static_cast<unsigned>(vocabulary_),
                                        static_cast<unsigned>(vectors_of_row_),
                                        num_kept_,
                                        rows.scale,
                                        rows.loss,
                                        fault_};
  cuda::launch(kernel_, static_cast<unsigned>(rows.num_rows), num_threads_, num_kept_ * kVectorBytes, stream,
               arguments);
}

}  // namespace tessera::cuda
