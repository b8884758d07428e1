// What softmax needs of this rank's part of the vocabulary, given the maximum i1[N] over all of it: o0[N], the sum of
// e^(logit - max), and o1[N], the target's logit if the target is here, else 0. Summed over the ranks they are those of
// the whole vocabulary. One block a row: every thread sums columns a block's width apart, then one tree over the block,
// so the order depends on the number of columns alone.
#include <cub/block/block_reduce.cuh>

#include "cuda-device/kernels/fault.cuh"
#include "cuda-device/kernels/launch.h"
#include "cuda-device/kernels/op_table.h"
#include "cuda-device/kernels/softmax.cuh"
#include "tessera/op_slots.hpp"

namespace tessera::cuda {
namespace {

constexpr int kNumThreads = 256;

struct Arguments {
  const float* logits;
  uint64_t columns;
  const float* row_max;
  const int32_t* targets;
  op::VocabularyPart part;
  float* row_sum;
  float* target_logit;
  Fault* fault;
};

// One block a row. No maximum is searched here: it came from all ranks, so every exponent is at most 0.
__global__ void __launch_bounds__(kNumThreads) softmax_stats(Arguments a) {
  using Reduce = cub::BlockReduce<float, kNumThreads>;
  __shared__ typename Reduce::TempStorage storage;
  const uint64_t row = blockIdx.x;
  const float* const logits = a.logits + row * a.columns;
  const float max = a.row_max[row];
  float sum = 0.0f;
#pragma unroll 4
  for (int64_t c = threadIdx.x; c < a.part.count; c += kNumThreads)
    sum += shifted_exp(logits[c], max);
  sum = Reduce(storage).Sum(sum);
  if (threadIdx.x != 0) return;
  const int target = a.targets[row];
  if (target == TSR_NO_TARGET) {  // the statistics of a loss of 0: max + log(1) - max, from one rank
    a.row_sum[row] = a.part.begin == 0 && a.part.count > 0 ? 1.0f : 0.0f;
    a.target_logit[row] = a.part.begin == 0 && a.part.count > 0 ? max : 0.0f;
    return;
  }
  if (target < 0 || target >= a.part.total)
    report(a.fault, kFaultTarget, target, static_cast<long long>(row), a.part.total);
  const int64_t here = int64_t{target} - a.part.begin;
  a.row_sum[row] = sum;
  a.target_logit[row] = here >= 0 && here < a.part.count ? logits[here] : 0.0f;
}

class SoftmaxStats final : public Kernel {
 public:
  SoftmaxStats(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context& context)
      : rows_(op::num_rows(op)),
        columns_(op::extent(op, TSR_DIM_VOCAB)),
        part_(op),
        fault_(context.fault()),
        logits_(op::find_operand(slots, TSR_ROLE_INPUT, 0)),
        row_max_(op::find_operand(slots, TSR_ROLE_INPUT, 1)),
        targets_(op::find_operand(slots, TSR_ROLE_INPUT, 2)),
        row_sum_(op::find_operand(slots, TSR_ROLE_OUTPUT, 0)),
        target_logit_(op::find_operand(slots, TSR_ROLE_OUTPUT, 1)) {}

  void launch(cudaStream_t stream, void* const* pointers) override {
    const Arguments arguments{logits_.in(pointers),
                              columns_,
                              row_max_.in(pointers),
                              targets_.in<const int32_t>(pointers),
                              part_,
                              row_sum_.in(pointers),
                              target_logit_.in(pointers),
                              fault_};
    cuda::launch(softmax_stats, static_cast<unsigned>(rows_), kNumThreads, 0, stream, arguments);
  }

 private:
  const uint64_t rows_, columns_;
  const op::VocabularyPart part_;
  Fault* const fault_;
  const op::Operand logits_, row_max_, targets_, row_sum_, target_logit_;
};

std::unique_ptr<Kernel> prepare(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context& context) {
  return std::make_unique<SoftmaxStats>(op, slots, context);
}

}  // namespace

const OpImpl kSoftmaxStats{op::segment_slots, prepare};

}  // namespace tessera::cuda
