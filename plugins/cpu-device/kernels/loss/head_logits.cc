// o0[N,V] = i0[N,C] p0[V,C]^T for this rank's part of the vocabulary, and o1[N], the largest logit of a token here.
// Padding rows of the table are zero, and so are their logits; they are not in the maximum: a zero may be larger than
// every real logit, and the softmax would lose its precision. The maximum is then reduced over the ranks.
#include "cpu-device/kernels/loss/lm_head.h"
#include "cpu-device/kernels/op_table.h"
#include "cpu-device/kernels/operands.h"
#include "cpu-device/kernels/parallel_rows.h"
#include "cpu-device/kernels/softmax_rows.h"

namespace tessera::cpu {
namespace {

struct Shape {
  explicit Shape(const tsr_op& op)
      : rows(num_rows(op)),
        columns(extent(op, TSR_DIM_EMBED)),
        vocabulary(extent(op, TSR_DIM_VOCAB)),
        num_tokens(static_cast<uint64_t>(op::VocabularyPart(op).count)) {}

  uint64_t rows, columns, vocabulary;
  uint64_t num_tokens;  // of the vocabulary here; columns beyond are padding
};

class Forward : public Kernel {
 public:
  Forward(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : shape_(op),
        head_{shape_.columns, shape_.vocabulary, num_threads},
        table_(find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        input_(find_operand(slots, TSR_ROLE_INPUT, 0)),
        logits_(find_operand(slots, TSR_ROLE_OUTPUT, 0)),
        row_max_(find_operand(slots, TSR_ROLE_OUTPUT, 1)) {}

  void run(void* const* pointers) override {
    float* logits = logits_.in(pointers);
    float* largest = row_max_.in(pointers);
    head_.multiply(shape_.rows, input_.in(pointers), table_.in(pointers), logits);
    const auto row_max = TESSERA_SIMD_CHOOSE(row_max);
    parallel_for(head_.num_threads, shape_.rows, row_grain(shape_.vocabulary), [&](uint64_t begin, uint64_t end, int) {
      for (uint64_t n = begin; n < end; ++n)
        largest[n] = row_max(logits + n * shape_.vocabulary, shape_.num_tokens);
    });
  }

 private:
  const Shape shape_;
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
  const Shape shape_;
  const Head head_;
  const Operand table_, input_, logits_gradient_, input_gradient_, table_gradient_;
};

}  // namespace

const OpImpl kHeadLogits{op::segment_slots, prepare_forward_or_backward<Forward, Backward>};

}  // namespace tessera::cpu
