// Softmax cross-entropy of logits i0[N,L] with labels i1[N], for classification: the logits are an operand, since a few
// classes take little memory (LOSS, of a vocabulary, makes them in chunks). FORWARD adds the losses to x:LOSS, without
// rounding, and to x:CORRECT the rows whose label has the largest logit, the first of equal ones; BACKWARD also makes
// di0, of the loss times x:LOSS_SCALE. Two passes over a row with one exponential each.
#include <algorithm>
#include <atomic>

#include "cpu-device/kernels/loss/token_loss.h"
#include "cpu-device/kernels/op_table.h"
#include "cpu-device/kernels/parallel_rows.h"
#include "cpu-device/kernels/tokens.h"

namespace tessera::cpu {
namespace {

/// A comparison with NaN is false, so a row that has one at its label, or NaN anywhere else, is not correct.
bool is_largest(const float* logits, uint64_t num_logits, uint64_t label) {
  bool largest = true;
  for (uint64_t i = 0; i < label; ++i)
    largest &= logits[label] > logits[i];
  for (uint64_t i = label; i < num_logits; ++i)
    largest &= logits[label] >= logits[i];
  return largest;
}

class CrossEntropy : public Kernel {
 public:
  CrossEntropy(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : rows_(num_rows(op)),
        classes_(extent(op, TSR_DIM_CLASSES)),
        num_threads_(num_threads),
        scalars_(op, slots),
        logits_(find_operand(slots, TSR_ROLE_INPUT, 0)),
        labels_(find_operand(slots, TSR_ROLE_INPUT, 1)),
        correct_(find_operand(slots, TSR_ROLE_SCALAR, TSR_SCALAR_CORRECT)),
        logits_gradient_(find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 0)),
        losses_(find_operand(slots, TSR_ROLE_WORKSPACE, 0)) {}

  void run(void* const* pointers) override {
    check_targets(labels_.in<const int32_t>(pointers), rows_, classes_, kLabel);
    std::atomic<int64_t> num_correct = 0;
    parallel_for(num_threads_, rows_, row_grain(classes_),
                 [&](uint64_t begin, uint64_t end, int) { num_correct += run_rows(pointers, begin, end); });
    const AccumulatorView loss = scalars_.start_loss(pointers);
    for (uint64_t n = 0; n < rows_; ++n)
      accumulate(loss, double{losses_.in(pointers)[n]});
    carry(loss);
    if (int64_t* correct = correct_.in<int64_t>(pointers))
      *correct = (correct_.accumulates ? *correct : 0) + num_correct.load();
  }

 private:
  /// The rows that are correct.
  int64_t run_rows(void* const* pointers, uint64_t begin, uint64_t end) const {
    const auto row_max = TESSERA_SIMD_CHOOSE(row_max);
    const auto exp_sum = TESSERA_SIMD_CHOOSE(exp_sum);
    const double scale = scalars_.gradient_scale(pointers);
    int64_t num_correct = 0;
    for (uint64_t n = begin; n < end; ++n) {
      if (labels_.in<const int32_t>(pointers)[n] == TSR_NO_TARGET) {
        skip_row(pointers, n);
        continue;
      }
      const float* row = logits_.in(pointers) + n * classes_;
      const auto label = static_cast<uint64_t>(labels_.in<const int32_t>(pointers)[n]);
      const float max = row_max(row, classes_);
      const double sum = exp_sum(row, classes_, max, 1.0f);
      losses_.in(pointers)[n] = token_loss(double{max}, sum, double{row[label]});
      num_correct += is_largest(row, classes_, label) ? 1 : 0;
      if (float* gradient = logits_gradient_.in(pointers))
        differentiate_softmax({row, classes_, max, sum, static_cast<int64_t>(label)}, scale,
                              logits_gradient_.accumulates, gradient + n * classes_);
    }
    return num_correct;
  }

  /// A row without a label: no loss, never correct, zero for a gradient.
  void skip_row(void* const* pointers, uint64_t n) const {
    losses_.in(pointers)[n] = 0.0f;
    float* gradient = logits_gradient_.in(pointers);
    if (gradient && !logits_gradient_.accumulates)
      std::fill(gradient + n * classes_, gradient + (n + 1) * classes_, 0.0f);
  }

  const uint64_t rows_, classes_;
  const int num_threads_;
  const LossScalars scalars_;
  const Operand logits_, labels_, correct_, logits_gradient_, losses_;
};

SlotList describe(const tsr_op& op) {
  SlotList slots = op::segment_slots(op);
  slots.push_back(op::workspace(0, num_rows(op)));
  return slots;
}

}  // namespace

const OpImpl kCrossEntropy{describe, prepare_kernel<CrossEntropy>};

}  // namespace tessera::cpu
