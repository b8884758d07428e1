// The loss of each row from the maximum i1[N], the sum i2[N] of e^(logit - max) and the target's logit i3[N], all over
// the whole vocabulary; and the gradient of this rank's part of the logits i0[N,V], which is zero in padding. All ranks
// of a split vocabulary have the same losses, each of them all.
#include "cuda-device/context.h"
#include "cuda-device/kernels/loss/losses.cuh"
#include "cuda-device/kernels/op_table.h"
#include "cuda-device/kernels/softmax.cuh"
#include "cuda-device/kernels/vectors.cuh"
#include "tessera/op_slots.hpp"

namespace tessera::cuda {
namespace {

constexpr unsigned kNumThreads = 256;

// Exact, so threads and blocks may add in any order: first into shared memory, then once a block into the op's limbs.
__global__ void __launch_bounds__(kNumThreads)
    add_losses(const float* max, const float* sum, const float* target_logit, uint64_t rows, int64_t* loss) {
  __shared__ int64_t of_block[TSR_ACCUMULATOR_LIMBS];
  if (threadIdx.x < TSR_ACCUMULATOR_LIMBS) of_block[threadIdx.x] = 0;
  __syncthreads();
  const uint64_t row = uint64_t{blockIdx.x} * kNumThreads + threadIdx.x;
  if (row < rows) atomic_accumulate(of_block, row_loss(max[row], sum[row], target_logit[row]));
  __syncthreads();
  atomic_accumulate_block(loss, of_block);
}

struct Arguments {
  const float* logits;
  const float* row_max;
  const float* row_sum;
  const int32_t* targets;
  op::VocabularyPart part;
  uint64_t vectors_of_row;
  GradientScale scale;
  bool accumulates;
  float* gradient;
};

// blockIdx.x is the row. scale (softmax - one at the target), for the columns that are tokens here; a target of another
// rank is outside [0, count) and nothing is subtracted.
template <int kNum>
__global__ void __launch_bounds__(kNumThreads) differentiate(Arguments a) {
  const uint64_t row = blockIdx.x, v = uint64_t{blockIdx.y} * kNumThreads + threadIdx.x;
  if (v >= a.vectors_of_row) return;
  const auto scale = static_cast<float>(a.scale.value());
  const float max = a.row_max[row], factor = scale / a.row_sum[row];
  const bool is_predicted = a.targets[row] != TSR_NO_TARGET;
  const int64_t target = int64_t{a.targets[row]} - a.part.begin;
  float x[kNum], before[kNum] = {};
  load<kNum>(a.logits, row * a.vectors_of_row + v, x);
  if (a.accumulates) load<kNum>(a.gradient, row * a.vectors_of_row + v, before);
#pragma unroll
  for (int j = 0; j < kNum; ++j) {
    const auto column = static_cast<int64_t>(v * kNum + j);
    float gradient = is_predicted && column < a.part.count ? shifted_exp(x[j], max) * factor : 0.0f;
    if (is_predicted && column == target && column < a.part.count) gradient -= scale;
    x[j] = before[j] + gradient;
  }
  store<kNum>(x, a.gradient, row * a.vectors_of_row + v);
}

class LossGrad final : public Kernel {
 public:
  LossGrad(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context&)
      : rows_(op::num_rows(op)),
        columns_(op::extent(op, TSR_DIM_VOCAB)),
        part_(op),
        scale_(op, slots),
        loss_(slots, TSR_SCALAR_LOSS),
        logits_(op::find_operand(slots, TSR_ROLE_INPUT, 0)),
        row_max_(op::find_operand(slots, TSR_ROLE_INPUT, 1)),
        row_sum_(op::find_operand(slots, TSR_ROLE_INPUT, 2)),
        target_logit_(op::find_operand(slots, TSR_ROLE_INPUT, 3)),
        targets_(op::find_operand(slots, TSR_ROLE_INPUT, 4)),
        gradient_(op::find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 0)) {}

  void launch(cudaStream_t stream, void* const* pointers) override {
    int64_t* const loss = loss_.begin(stream, pointers);
    cuda::launch(add_losses, blocks_for(rows_, kNumThreads), kNumThreads, 0, stream, row_max_.in(pointers),
                 row_sum_.in(pointers), target_logit_.in(pointers), rows_, loss);
    loss_.end(stream, pointers);
    if (gradient_.is_bound()) launch_gradient(stream, pointers);
  }

 private:
  void launch_gradient(cudaStream_t stream, void* const* pointers) const {
    Arguments arguments{logits_.in(pointers),
                        row_max_.in(pointers),
                        row_sum_.in(pointers),
                        targets_.in<const int32_t>(pointers),
                        part_,
                        columns_,
                        scale_.in(pointers),
                        gradient_.accumulates,
                        gradient_.in(pointers)};
    const bool has_vectors = columns_ % kNumLanes<float> == 0 && starts_at_multiple(arguments.logits, kVectorBytes) &&
                             starts_at_multiple(arguments.gradient, kVectorBytes);
    if (has_vectors) arguments.vectors_of_row /= kNumLanes<float>;
    const dim3 grid(static_cast<unsigned>(rows_), blocks_for(arguments.vectors_of_row, kNumThreads));
    cuda::launch(has_vectors ? differentiate<kNumLanes<float>> : differentiate<1>, grid, kNumThreads, 0, stream,
                 arguments);
  }

  const uint64_t rows_, columns_;
  const op::VocabularyPart part_;
  const GradientScaleOperand scale_;
  const AccumulatorOperand loss_;
  const op::Operand logits_, row_max_, row_sum_, target_logit_, targets_, gradient_;
};

std::unique_ptr<Kernel> prepare(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context& context) {
  return std::make_unique<LossGrad>(op, slots, context);
}

}  // namespace

const OpImpl kLossGrad{op::segment_slots, prepare};

}  // namespace tessera::cuda
