// o0[N,V] = i0[N,C] p0[V,C]^T for this rank's part of the vocabulary, and o1[N], the largest logit of a token here.
// Padding rows of the table are zero, and so are their logits; they are not in the maximum: a zero may be larger than
// every real logit, and the softmax would lose its precision. The maximum is then reduced over the ranks.
#include "cpu-device/kernels/loss/lm_head.h"
#include "cpu-device/kernels/op_table.h"
#include "cpu-device/kernels/operands.h"

namespace tessera::cpu {
namespace {

class Forward : public Kernel {
 public:
  Forward(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : shape_(op),
        num_tokens_(static_cast<uint64_t>(op::VocabularyPart(op).count)),
        head_{shape_.columns, shape_.vocabulary, num_threads},
        table_(find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        input_(find_operand(slots, TSR_ROLE_INPUT, 0)),
        logits_(find_operand(slots, TSR_ROLE_OUTPUT, 0)),
        row_max_(find_operand(slots, TSR_ROLE_OUTPUT, 1)) {}

  void run(void* const* pointers) override {
    float* logits = logits_.in(pointers);
    head_.multiply(shape_.rows, input_.in(pointers), table_.in(pointers), logits);
    find_row_maxima(shape_, num_tokens_, logits, row_max_.in(pointers), head_.num_threads);
  }

 private:
  const LmHeadShape shape_;
  const uint64_t num_tokens_;  // of the vocabulary here; columns beyond are padding
  const Head head_;
  const Operand table_, input_, logits_, row_max_;
};

class Backward : public Kernel {
 public:
  Backward(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : shape_(op),
        head_{shape_.columns, shape_.vocabulary, num_threads},
        table_(find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        input_(find_operand(slots, TSR_ROLE_INPUT, 0)),
        logits_gradient_(find_operand(slots, TSR_ROLE_OUTPUT_GRADIENT, 0)),
        input_gradient_(find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 0)),
        table_gradient_(find_operand(slots, TSR_ROLE_GRADIENT, 0)) {}

  void run(void* const* pointers) override {
    const float* dlogits = logits_gradient_.in(pointers);
    if (float* dx = input_gradient_.in(pointers))
      head_.input_gradient(shape_.rows, dlogits, table_.in(pointers), input_gradient_.accumulates, dx);
    if (float* dtable = table_gradient_.in(pointers))
      head_.table_gradient(shape_.rows, dlogits, input_.in(pointers), table_gradient_.accumulates, dtable);
  }

 private:
  const LmHeadShape shape_;
  const Head head_;
  const Operand table_, input_, logits_gradient_, input_gradient_, table_gradient_;
};

}  // namespace

const OpImpl kHeadLogits{op::segment_slots, prepare_forward_or_backward<Forward, Backward>};

}  // namespace tessera::cpu
