// loss/head_logits.cc in bfloat16. Logits and their gradient are float32 operands; each half of the backward rounds the
// gradient before its product.
#include <optional>

#include "cpu-device/kernels/bf16/bf16_ops.h"
#include "cpu-device/kernels/bf16/rows.h"
#include "cpu-device/kernels/bf16/tiles.h"
#include "cpu-device/kernels/loss/lm_head.h"
#include "cpu-device/kernels/operands.h"
#include "cpu-device/kernels/parallel_rows.h"

namespace tessera::cpu {
namespace {

class Forward : public Kernel {
 public:
  Forward(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : shape_(op),
        num_tokens_(static_cast<uint64_t>(op::VocabularyPart(op).count)),
        num_threads_(num_threads),
        product_({shape_.rows, shape_.vocabulary, shape_.columns}, {shape_.columns}, {shape_.columns, true},
                 {shape_.vocabulary, false}),
        table_(find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        input_(find_operand(slots, TSR_ROLE_INPUT, 0)),
        logits_(find_operand(slots, TSR_ROLE_OUTPUT, 0)),
        row_max_(find_operand(slots, TSR_ROLE_OUTPUT, 1)) {}

  void run(void* const* pointers) override {
    float* logits = logits_.in(pointers);
    product_.run_in_place(input_.in<const uint16_t>(pointers), table_.in<const uint16_t>(pointers), logits,
                          num_threads_);
    find_row_maxima(shape_, num_tokens_, logits, row_max_.in(pointers), num_threads_);
  }

 private:
  const LmHeadShape shape_;
  const uint64_t num_tokens_;  // of the vocabulary here; columns beyond are padding
  const int num_threads_;
  const TiledProduct product_;
  const Operand table_, input_, logits_, row_max_;
};

constexpr uint32_t kRounded = 0, kSums = 1;  // workspaces of the backward

class Backward : public Kernel {
 public:
  Backward(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : shape_(op),
        num_threads_(num_threads),
        table_(find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        input_(find_operand(slots, TSR_ROLE_INPUT, 0)),
        logits_gradient_(find_operand(slots, TSR_ROLE_OUTPUT_GRADIENT, 0)),
        input_gradient_(find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 0)),
        table_gradient_(find_operand(slots, TSR_ROLE_GRADIENT, 0)),
        rounded_(find_operand(slots, TSR_ROLE_WORKSPACE, kRounded)),
        sums_(find_operand(slots, TSR_ROLE_WORKSPACE, kSums)) {
    const uint64_t rows = shape_.rows, columns = shape_.columns, vocabulary = shape_.vocabulary;
    if (input_gradient_.is_bound())
      to_input_.emplace(ProductExtents{rows, columns, vocabulary}, Bf16Layout{vocabulary}, Bf16Layout{columns},
                        TileOutput{});
    if (table_gradient_.is_bound())
      to_table_.emplace(ProductExtents{vocabulary, columns, rows}, Bf16Layout{vocabulary, true}, Bf16Layout{columns},
                        TileOutput{columns, table_gradient_.accumulates});
  }

  void run(void* const* pointers) override {
    const float* exact = logits_gradient_.in(pointers);
    auto* dlogits = rounded_.in<uint16_t>(pointers);
    parallel_for(num_threads_, shape_.rows * shape_.vocabulary, kElementGrain,
                 [&](uint64_t begin, uint64_t end, int) { narrow(exact + begin, end - begin, dlogits + begin); });
    if (to_input_) run_input_half(pointers, dlogits);
    if (to_table_) run_table_half(pointers, dlogits);
  }

 private:
  void run_input_half(void* const* pointers, const uint16_t* dlogits) const {
    auto* dx = input_gradient_.in<uint16_t>(pointers);
    to_input_->run_in_scratch(dlogits, table_.in<const uint16_t>(pointers), sums_.in(pointers), num_threads_,
                              [&](const Tile& tile, float* sums) {
                                store_tile(tile, sums, input_gradient_.accumulates, shape_.columns, dx);
                              });
  }

  void run_table_half(void* const* pointers, const uint16_t* dlogits) const {
    to_table_->run_in_place(dlogits, input_.in<const uint16_t>(pointers), table_gradient_.in(pointers), num_threads_);
  }

  const LmHeadShape shape_;
  const int num_threads_;
  const Operand table_, input_, logits_gradient_, input_gradient_, table_gradient_, rounded_, sums_;
  std::optional<TiledProduct> to_input_, to_table_;
};

SlotList describe(const tsr_op& op) {
  SlotList slots = op::segment_slots(op);
  if (op.phase == TSR_PHASE_FORWARD) return slots;
  const LmHeadShape shape(op);
  slots.push_back(op::workspace(kRounded, shape.rows * shape.vocabulary, TSR_BF16));
  if (has_input_half(op.phase))
    slots.push_back(op::workspace(kSums, tile_scratch_elements({shape.rows, shape.columns})));
  return slots;
}

}  // namespace

const OpImpl kBf16HeadLogits{describe, prepare_forward_or_backward<Forward, Backward>};

}  // namespace tessera::cpu
