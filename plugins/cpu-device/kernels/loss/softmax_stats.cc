// What softmax needs of this rank's part of the vocabulary, given the maximum i1[N] over all of it: o0[N], the sum of
// e^(logit - max), and o1[N], the target's logit if the target is here, else 0. Summed over the ranks they are those of
// the whole vocabulary. This is also where targets are checked against the whole vocabulary: the rank that lacks a
// target must not take a wrong one for a token of another rank. A row without a target has the statistics of a loss of
// 0, max + log(1) - max, from the rank with the first token.
#include "cpu-device/kernels/op_table.h"
#include "cpu-device/kernels/operands.h"
#include "cpu-device/kernels/parallel_rows.h"
#include "cpu-device/kernels/softmax_rows.h"
#include "cpu-device/kernels/tokens.h"

namespace tessera::cpu {
namespace {

class SoftmaxStats : public Kernel {
 public:
  SoftmaxStats(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : rows_(num_rows(op)),
        columns_(extent(op, TSR_DIM_VOCAB)),
        part_(op),
        num_threads_(num_threads),
        logits_(find_operand(slots, TSR_ROLE_INPUT, 0)),
        row_max_(find_operand(slots, TSR_ROLE_INPUT, 1)),
        targets_(find_operand(slots, TSR_ROLE_INPUT, 2)),
        row_sum_(find_operand(slots, TSR_ROLE_OUTPUT, 0)),
        target_logit_(find_operand(slots, TSR_ROLE_OUTPUT, 1)) {}

  void run(void* const* pointers) override {
    const auto* targets = targets_.in<const int32_t>(pointers);
    check_targets(targets, rows_, static_cast<uint64_t>(part_.total), kTarget);
    const float* logits = logits_.in(pointers);
    const float* max = row_max_.in(pointers);
    float* sum = row_sum_.in(pointers);
    float* target_logit = target_logit_.in(pointers);
    const bool has_first_token = part_.has_first_token();
    const auto exp_sum = TESSERA_SIMD_CHOOSE(exp_sum);
    parallel_for(num_threads_, rows_, row_grain(columns_), [&](uint64_t begin, uint64_t end, int) {
      for (uint64_t n = begin; n < end; ++n) {
        if (targets[n] == TSR_NO_TARGET) {
          sum[n] = has_first_token ? 1.0f : 0.0f;
          target_logit[n] = has_first_token ? max[n] : 0.0f;
          continue;
        }
        const float* row = logits + n * columns_;
        sum[n] = static_cast<float>(exp_sum(row, static_cast<size_t>(part_.count), max[n], 1.0f));
        const int64_t target = part_.row_of(targets[n]);
        target_logit[n] = target >= 0 ? row[target] : 0.0f;
      }
    });
  }

 private:
  const uint64_t rows_, columns_;
  const op::VocabularyPart part_;
  const int num_threads_;
  const Operand logits_, row_max_, targets_, row_sum_, target_logit_;
};

}  // namespace

const OpImpl kSoftmaxStats{op::segment_slots, prepare_kernel<SoftmaxStats>};

}  // namespace tessera::cpu
