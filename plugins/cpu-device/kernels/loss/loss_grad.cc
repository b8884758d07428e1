// The loss of each token from the maximum i1[N], the sum i2[N] of e^(logit - max) and the target's logit i3[N], all
// over the whole vocabulary; and the gradient of this rank's part of the logits i0[N,V], which is zero in padding and
// in rows without a target (whose loss is 0 by their statistics, see softmax_stats.cc). All ranks of a split vocabulary
// have the same losses: they compute them from the same three numbers a token, reduced before (Megatron-LM's
// vocabulary-parallel cross-entropy, Shoeybi et al. 2019).
#include <algorithm>

#include "cpu-device/kernels/loss/token_loss.h"
#include "cpu-device/kernels/op_table.h"
#include "cpu-device/kernels/operands.h"
#include "cpu-device/kernels/parallel_rows.h"

namespace tessera::cpu {
namespace {

class LossGrad : public Kernel {
 public:
  LossGrad(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : rows_(num_rows(op)),
        columns_(extent(op, TSR_DIM_VOCAB)),
        part_(op),
        scalars_(op, slots),
        num_threads_(num_threads),
        logits_(find_operand(slots, TSR_ROLE_INPUT, 0)),
        row_max_(find_operand(slots, TSR_ROLE_INPUT, 1)),
        row_sum_(find_operand(slots, TSR_ROLE_INPUT, 2)),
        target_logit_(find_operand(slots, TSR_ROLE_INPUT, 3)),
        targets_(find_operand(slots, TSR_ROLE_INPUT, 4)),
        logits_gradient_(find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 0)) {}

  void run(void* const* pointers) override {
    add_losses(pointers);
    if (logits_gradient_.is_bound()) differentiate(pointers);
  }

 private:
  // By one thread: N additions of a few integers, against N V exponentials.
  void add_losses(void* const* pointers) const {
    const float* max = row_max_.in(pointers);
    const float* sum = row_sum_.in(pointers);
    const float* target_logit = target_logit_.in(pointers);
    const AccumulatorView loss = scalars_.start_loss(pointers);
    for (uint64_t n = 0; n < rows_; ++n)
      accumulate(loss, double{token_loss(double{max[n]}, double{sum[n]}, double{target_logit[n]})});
    carry(loss);
  }

  void differentiate(void* const* pointers) const {
    const float* logits = logits_.in(pointers);
    const float* max = row_max_.in(pointers);
    const float* sum = row_sum_.in(pointers);
    const auto* targets = targets_.in<const int32_t>(pointers);
    float* gradient = logits_gradient_.in(pointers);
    const double scale = scalars_.gradient_scale(pointers);
    const auto num_tokens = static_cast<size_t>(part_.count);
    parallel_for(num_threads_, rows_, row_grain(columns_), [&](uint64_t begin, uint64_t end, int) {
      for (uint64_t n = begin; n < end; ++n) {
        float* const row = gradient + n * columns_;
        const bool accumulate = logits_gradient_.accumulates;
        if (targets[n] == TSR_NO_TARGET) {
          if (!accumulate) std::fill(row, row + columns_, 0.0f);
          continue;
        }
        differentiate_softmax({logits + n * columns_, num_tokens, max[n], double{sum[n]}, part_.row_of(targets[n])},
                              scale, accumulate, row);
        if (!accumulate) std::fill(row + num_tokens, row + columns_, 0.0f);
      }
    });
  }

  const uint64_t rows_, columns_;
  const op::VocabularyPart part_;
  const LossScalars scalars_;
  const int num_threads_;
  const Operand logits_, row_max_, row_sum_, target_logit_, targets_, logits_gradient_;
};

}  // namespace

const OpImpl kLossGrad{op::segment_slots, prepare_kernel<LossGrad>};

}  // namespace tessera::cpu
