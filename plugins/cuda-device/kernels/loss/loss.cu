// Softmax cross-entropy of i0[N,C] p0[V,C]^T with targets i1[N], over chunks of rows, whose logits become their own
// gradient in place. FORWARD adds the losses to x:LOSS; BACKWARD also makes di0 and g0, of the loss times x:LOSS_SCALE.
// For each chunk: logits (product), loss and gradient (chunk_loss.cu), dx and dtable (products). All of it is
// enqueued at once; the one buffer of logits is reused, which the order of the stream makes safe.
#include <algorithm>

#include "cuda-device/context.h"
#include "cuda-device/kernels/loss/chunk_loss.cuh"
#include "cuda-device/kernels/loss/lm_head.h"
#include "cuda-device/kernels/op_table.h"
#include "tessera/op_slots.hpp"

namespace tessera::cuda {
namespace {

class Loss final : public Kernel {
 public:
  Loss(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context& context)
      : shape_(op, context.options().part_bytes),
        scale_(op, slots),
        table_(op::find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        input_(op::find_operand(slots, TSR_ROLE_INPUT, 0)),
        targets_(op::find_operand(slots, TSR_ROLE_INPUT, 1)),
        input_gradient_(op::find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 0)),
        table_gradient_(op::find_operand(slots, TSR_ROLE_GRADIENT, 0)),
        accumulator_(slots, TSR_SCALAR_LOSS),
        head_(shape_, {true, input_gradient_.is_bound(), table_gradient_.is_bound()}, slots, context),
        cross_entropy_(shape_.dtype, shape_.vocabulary, shape_.width,
                       input_gradient_.is_bound() || table_gradient_.is_bound(), context) {}

  void launch(cudaStream_t stream, void* const* pointers) override {
    const Head::Launch launch = head_.begin(stream, pointers, table_.in<void>(pointers));
    int64_t* const loss = accumulator_.begin(stream, pointers);
    for (uint64_t first = 0; first < shape_.rows; first += shape_.chunk)
      launch_chunk(launch, pointers, loss, first);
    accumulator_.end(stream, pointers);
  }

 private:
  /// Rows from `first` on of an operand [N,C].
  void* rows_of(const op::Operand& operand, void* const* pointers, uint64_t first) const {
    return operand.in<std::byte>(pointers) + TSR_NUM_BYTES(shape_.dtype, first * shape_.columns);
  }

  void launch_chunk(const Head::Launch& launch, void* const* pointers, int64_t* loss, uint64_t first) const {
    const uint64_t num_rows = std::min(shape_.chunk, shape_.rows - first);
    const void* const x = rows_of(input_, pointers, first);
    head_.logits(launch, num_rows, x);
    cross_entropy_.launch(launch.stream, {.logits = launch.logits,
                                          .targets = targets_.in<const int32_t>(pointers) + first,
                                          .first = first,
                                          .num_rows = num_rows,
                                          .scale = scale_.in(pointers),
                                          .loss = loss});
    if (input_gradient_.is_bound())
      head_.input_gradient(launch, num_rows, input_gradient_.accumulates, rows_of(input_gradient_, pointers, first));
    if (table_gradient_.is_bound())
      head_.table_gradient(launch, num_rows, x, table_gradient_.accumulates || first > 0, table_gradient_.in(pointers));
  }

  const HeadShape shape_;
  const GradientScaleOperand scale_;
  const op::Operand table_, input_, targets_, input_gradient_, table_gradient_;
  const AccumulatorOperand accumulator_;
  const Head head_;
  const CrossEntropy cross_entropy_;
};

op::SlotList describe(const tsr_op& op) {
  op::SlotList slots = op::segment_slots(op);
  const bool differentiates = op.phase == TSR_PHASE_BACKWARD;
  append_head_workspaces(HeadShape(op), {true, differentiates, differentiates}, slots);
  return slots;
}

std::unique_ptr<Kernel> prepare(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context& context) {
  return std::make_unique<Loss>(op, slots, context);
}

}  // namespace

const OpImpl kLoss{describe, prepare};

}  // namespace tessera::cuda
