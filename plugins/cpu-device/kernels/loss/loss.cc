// Softmax cross-entropy of i0[N,C] p0[V,C]^T with targets i1[N], over chunks of tokens: one chunk's logits are all that
// is ever stored, and become their own gradient in place. FORWARD adds the losses to x:LOSS; BACKWARD also makes di0
// and g0, of the loss times x:LOSS_SCALE.
//
// Logits of GPT-2 for 32 x 1024 tokens would be 6.6 GB. So a chunk of 64 MiB is made, turned into losses and, in place,
// into its gradient, and multiplied twice, before the next: the three products of the head run once each, as they would
// on the whole. The chunk's length depends on the op alone: if it depended on free memory, so would the sums in g0.
// Losses are added without rounding (accumulator.hpp), so the mean loss does not depend on chunks or ranks. A row
// without a target has no loss, and zero for a gradient.
#include <algorithm>

#include "cpu-device/kernels/loss/lm_head.h"
#include "cpu-device/kernels/loss/token_loss.h"
#include "cpu-device/kernels/op_table.h"
#include "cpu-device/kernels/operands.h"
#include "cpu-device/kernels/parallel.h"
#include "cpu-device/kernels/softmax_rows.h"
#include "cpu-device/kernels/tokens.h"

namespace tessera::cpu {
namespace {

struct Shape : LmHeadShape {
  explicit Shape(const tsr_op& op) : LmHeadShape(op), chunk(loss_chunk_length(rows, vocabulary)) {}

  uint64_t chunk;  // tokens at once
};

class Loss : public Kernel {
 public:
  Loss(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : shape_(op),
        is_backward_(op.phase == TSR_PHASE_BACKWARD),
        head_{shape_.columns, shape_.vocabulary, num_threads},
        scalars_(op, slots),
        table_(find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        input_(find_operand(slots, TSR_ROLE_INPUT, 0)),
        targets_(find_operand(slots, TSR_ROLE_INPUT, 1)),
        logits_(find_operand(slots, TSR_ROLE_WORKSPACE, 0)),
        losses_(find_operand(slots, TSR_ROLE_WORKSPACE, 1)),
        input_gradient_(find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 0)),
        table_gradient_(find_operand(slots, TSR_ROLE_GRADIENT, 0)) {}

  void run(void* const* pointers) override {
    const auto* targets = targets_.in<const int32_t>(pointers);
    check_targets(targets, shape_.rows, shape_.vocabulary, kTarget);
    const AccumulatorView loss = scalars_.start_loss(pointers);
    const double scale = scalars_.gradient_scale(pointers);
    for (uint64_t first = 0; first < shape_.rows; first += shape_.chunk) {
      const uint64_t num_tokens = std::min(shape_.chunk, shape_.rows - first);
      head_.multiply(num_tokens, input_.in(pointers) + first * shape_.columns, table_.in(pointers),
                     logits_.in(pointers));
      run_softmax(targets + first, num_tokens, scale, logits_.in(pointers), losses_.in(pointers));
      for (uint64_t n = 0; n < num_tokens; ++n)
        accumulate(loss, double{losses_.in(pointers)[n]});
      carry(loss);
      if (is_backward_) run_products(pointers, first, num_tokens);
    }
  }

 private:
  // The loss of each token; with backward, logits become their gradient: scale * (softmax - one at the target).
  void run_softmax(const int32_t* targets, uint64_t num_tokens, double scale, float* logits, float* losses) const {
    const auto row_max = TESSERA_SIMD_CHOOSE(row_max);
    const auto exp_sum = TESSERA_SIMD_CHOOSE(exp_sum);
    const auto exp_in_place = TESSERA_SIMD_CHOOSE(exp_in_place);
    const auto scale_row = TESSERA_SIMD_CHOOSE(scale_row);
    parallel_for(head_.num_threads, num_tokens, 1, [&](uint64_t begin, uint64_t end, int) {
      for (uint64_t n = begin; n < end; ++n) {
        float* row = logits + n * shape_.vocabulary;
        if (targets[n] == TSR_NO_TARGET) {
          losses[n] = 0.0f;
          if (is_backward_) std::fill(row, row + shape_.vocabulary, 0.0f);
          continue;
        }
        const double target = double{row[targets[n]]};
        const float max = row_max(row, shape_.vocabulary);
        const double sum =
            is_backward_ ? exp_in_place(row, shape_.vocabulary, max, 1.0f) : exp_sum(row, shape_.vocabulary, max, 1.0f);
        losses[n] = token_loss(double{max}, sum, target);
        if (!is_backward_) continue;
        scale_row(row, shape_.vocabulary, static_cast<float>(scale / sum));
        row[targets[n]] -= static_cast<float>(scale);
      }
    });
  }

  void run_products(void* const* pointers, uint64_t first, uint64_t num_tokens) const {
    const float* dlogits = logits_.in(pointers);
    if (float* dx = input_gradient_.in(pointers))
      head_.input_gradient(num_tokens, dlogits, table_.in(pointers), input_gradient_.accumulates,
                           dx + first * shape_.columns);
    if (float* dtable = table_gradient_.in(pointers))
      head_.table_gradient(num_tokens, dlogits, input_.in(pointers) + first * shape_.columns,
                           table_gradient_.accumulates || first > 0, dtable);
  }

  const Shape shape_;
  const bool is_backward_;
  const Head head_;
  const LossScalars scalars_;
  const Operand table_, input_, targets_, logits_, losses_, input_gradient_, table_gradient_;
};

SlotList describe(const tsr_op& op) {
  SlotList slots = op::segment_slots(op);
  const Shape shape(op);
  slots.insert(slots.end(), {op::workspace(0, shape.chunk * shape.vocabulary), op::workspace(1, shape.chunk)});
  return slots;
}

}  // namespace

const OpImpl kLoss{describe, prepare_kernel<Loss>};

}  // namespace tessera::cpu
