// Softmax cross-entropy of logits i0[N,L] with labels i1[N], for classification: the losses, exactly, the number of
// rows whose label has the largest logit, and di0. One warp a row: each lane takes columns 32 apart, and a butterfly of
// shuffles gives all lanes the row's maximum and sum. The order depends on the number of classes alone. A few classes
// leave lanes idle; such rows are a small part of any step.
#include "cuda-device/kernels/fault.cuh"
#include "cuda-device/kernels/loss/losses.cuh"
#include "cuda-device/kernels/op_table.h"
#include "cuda-device/kernels/row_warps.cuh"
#include "cuda-device/kernels/softmax.cuh"
#include "tessera/op_slots.hpp"

namespace tessera::cuda {
namespace {

template <class T>
struct Arguments {
  const T* logits;
  const int32_t* labels;
  uint64_t rows, classes;
  GradientScale scale;
  bool accumulates;
  T* gradient;  // null: not wanted
  int64_t* loss;
  int64_t* correct;  // null: not wanted
  Fault* fault;
};

/// A row, as all lanes of its warp have it.
struct RowStatistics {
  MaxAndSum softmax;
  bool is_correct;
};

/// A comparison with NaN is false, so a row that has one is not correct.
template <class T>
__device__ RowStatistics statistics_of(const T* logits, uint64_t classes, uint64_t label) {
  const float of_label = to_float(logits[label]);
  MaxAndSum part;
  int is_correct = 1;
  for_each_vector(classes, [&](uint64_t c) {
    const float x[1] = {to_float(logits[c])};
    part.add(x);
    is_correct &= c < label ? of_label > x[0] : of_label >= x[0];
  });
#pragma unroll
  for (unsigned other = kLanesOfRow / 2; other > 0; other /= 2) {
    const MaxAndSum others{__shfl_xor_sync(0xffffffffu, part.max, other),
                           __shfl_xor_sync(0xffffffffu, part.sum, other)};
    part = Combine{}(part, others);
    is_correct &= __shfl_xor_sync(0xffffffffu, is_correct, other);
  }
  return {part, is_correct != 0};
}

template <class T>
__device__ void differentiate(const Arguments<T>& a, uint64_t row, uint64_t label, const MaxAndSum& softmax) {
  const double scale = a.scale.value();
  const auto factor = static_cast<float>(scale / double{softmax.sum});
  for_each_vector(a.classes, [&](uint64_t c) {
    const uint64_t i = row * a.classes + c;
    float value = shifted_exp(to_float(a.logits[i]), softmax.max) * factor;
    if (c == label) value -= static_cast<float>(scale);
    write_or_add(a.gradient + i, value, a.accumulates);
  });
}

template <class T>
__global__ void __launch_bounds__(kRowWarpThreads) cross_entropy(Arguments<T> a) {
  __shared__ int64_t loss_of_block[TSR_ACCUMULATOR_LIMBS];
  __shared__ int64_t correct_of_block;
  if (threadIdx.x < TSR_ACCUMULATOR_LIMBS) loss_of_block[threadIdx.x] = 0;
  if (threadIdx.x == 0) correct_of_block = 0;
  __syncthreads();
  if (const uint64_t row = row_of_warp(); row < a.rows) {
    const int label = a.labels[row];
    const bool is_class = label >= 0 && static_cast<uint64_t>(label) < a.classes;
    const bool is_first_lane = threadIdx.x % kLanesOfRow == 0;
    if (is_class) {
      const auto l = static_cast<uint64_t>(label);
      const T* const logits = a.logits + row * a.classes;
      const RowStatistics of_row = statistics_of(logits, a.classes, l);
      if (is_first_lane)
        atomic_accumulate(loss_of_block, row_loss(of_row.softmax.max, of_row.softmax.sum, to_float(logits[l])));
      if (is_first_lane && of_row.is_correct) atomic_add(&correct_of_block, 1);
      if (a.gradient) differentiate(a, row, l, of_row.softmax);
    } else if (label == TSR_NO_TARGET) {
      if (a.gradient && !a.accumulates)
        for_each_vector(a.classes, [&](uint64_t c) { write_or_add(a.gradient + row * a.classes + c, 0.0f, false); });
    } else if (is_first_lane) {
      report(a.fault, kFaultLabel, label, static_cast<long long>(row), static_cast<long long>(a.classes));
    }
  }
  __syncthreads();
  atomic_accumulate_block(a.loss, loss_of_block);
  if (a.correct && threadIdx.x == 0 && correct_of_block > 0) atomic_add(a.correct, correct_of_block);
}

class CrossEntropy final : public Kernel {
 public:
  CrossEntropy(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context& context)
      : dtype_(op.dtype),
        rows_(op::num_rows(op)),
        classes_(op::extent(op, TSR_DIM_CLASSES)),
        scale_(op, slots),
        fault_(context.fault()),
        loss_(slots, TSR_SCALAR_LOSS),
        correct_(op::find_operand(slots, TSR_ROLE_SCALAR, TSR_SCALAR_CORRECT)),
        logits_(op::find_operand(slots, TSR_ROLE_INPUT, 0)),
        labels_(op::find_operand(slots, TSR_ROLE_INPUT, 1)),
        gradient_(op::find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 0)) {}

  void launch(cudaStream_t stream, void* const* pointers) override {
    int64_t* const loss = loss_.begin(stream, pointers);
    auto* const correct = correct_.in<int64_t>(pointers);
    if (correct && !correct_.accumulates)
      check(cudaMemsetAsync(correct, 0, sizeof *correct, stream), "zeroing the number of correct rows");
    with_value_type(dtype_, [&](auto zero) {
      using T = decltype(zero);
      const Arguments<T> arguments{.logits = logits_.in<const T>(pointers),
                                   .labels = labels_.in<const int32_t>(pointers),
                                   .rows = rows_,
                                   .classes = classes_,
                                   .scale = scale_.in(pointers),
                                   .accumulates = gradient_.accumulates,
                                   .gradient = gradient_.in<T>(pointers),
                                   .loss = loss,
                                   .correct = correct,
                                   .fault = fault_};
      cuda::launch(cross_entropy<T>, row_warp_grid(rows_), kRowWarpThreads, 0, stream, arguments);
    });
    loss_.end(stream, pointers);
  }

 private:
  const tsr_dtype dtype_;
  const uint64_t rows_, classes_;
  const GradientScaleOperand scale_;
  Fault* const fault_;
  const AccumulatorOperand loss_;
  const op::Operand correct_, logits_, labels_, gradient_;
};

std::unique_ptr<Kernel> prepare(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context& context) {
  return std::make_unique<CrossEntropy>(op, slots, context);
}

}  // namespace

const OpImpl kCrossEntropy{op::segment_slots, prepare};

}  // namespace tessera::cuda
