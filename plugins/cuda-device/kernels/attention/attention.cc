// o0[N,H*D] = causal softmax attention of i0[N,3*H*D] = q|k|v; s0[B,H,T] log-sum-exp of the scaled scores. In 16 bits
// cuDNN computes it where it can; else our plain kernels do. Both leave the same statistics, so forward and backward
// need not be of one kind.
#include "cuda-device/context.h"
#include "cuda-device/kernels/attention/attention_parts.h"
#include "cuda-device/kernels/attention/attention_plain.h"
#include "cuda-device/kernels/op_table.h"
#include "cuda-device/libraries/cudnn.h"
#include "tessera/op_slots.hpp"

namespace tessera::cuda {
namespace {

// Of a backward whose gradient is not wanted.
struct Nothing : Kernel {
  void launch(cudaStream_t, void* const*) override {}
};

// float32 elements of w0.
uint64_t num_scratch_elements(const tsr_op& op, const AttentionShape& shape) {
  const bool may_use_cudnn = cudnn_may_compute(op, shape);
  if (op.phase == TSR_PHASE_FORWARD)
    return may_use_cudnn ? static_cast<uint64_t>(forward_scratch_bytes(shape)) / sizeof(float) : 0;
  if (!may_use_cudnn) return plain_attention_scratch(shape);
  const AttentionScratch scratch(shape);
  return std::max(plain_attention_scratch(shape),
                  (static_cast<uint64_t>(scratch.cudnn + scratch.gradient) + sizeof(float) - 1) / sizeof(float));
}

op::SlotList describe(const tsr_op& op) {
  const AttentionShape shape(op);
  if (shape.head_dim > kMaxHeadDim)
    throw Error(TSR_E_UNSUPPORTED, "attention with heads of " + std::to_string(shape.head_dim) +
                                       " dims is not computed here; at most " + std::to_string(kMaxHeadDim) + " are");
  op::SlotList slots = op::segment_slots(op);
  const uint64_t scratch = slots.empty() ? 0 : num_scratch_elements(op, shape);
  if (scratch > 0) slots.push_back(op::workspace(0, scratch));
  return slots;
}

void require_cudnn_form(const tsr_op& op) {
  const AttentionShape shape(op);
  if (cudnn_may_compute(op, shape)) return;
  throw Error(TSR_E_UNSUPPORTED, "cuDNN takes heads of 8, 16, ... 128 dims and sequences of 2 tokens or more, not " +
                                     std::to_string(shape.head_dim) + " dims and " + std::to_string(shape.sequence) +
                                     " tokens");
}

std::unique_ptr<Kernel> prepare_plain(const tsr_op& op, std::span<const tsr_slot_spec> slots) {
  return op.phase == TSR_PHASE_FORWARD ? plain_attention_forward(op, slots) : plain_attention_backward(op, slots);
}

std::unique_ptr<Kernel> prepare(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context& context) {
  const bool is_forward = op.phase == TSR_PHASE_FORWARD;
  if (!is_forward && !op::find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 0).is_bound())
    return std::make_unique<Nothing>();
  const AttentionChoice choice = context.options().attention;
  if (choice == AttentionChoice::plain || op.dtype == TSR_F32) return prepare_plain(op, slots);
  try {
    require_cudnn_form(op);
    Cudnn* cudnn = context.cudnn();
    return cudnn ? cudnn->attention(op, slots) : prepare_plain(op, slots);
  } catch (const Error& error) {
    if (choice == AttentionChoice::cudnn) throw;
    context.warn_once(std::string("attention's ") + (is_forward ? "forward" : "backward") +
                      " runs on plain kernels, which are slow in 16 bits: " + error.what());
    return prepare_plain(op, slots);
  }
}

}  // namespace

const OpImpl kAttention{describe, prepare};

}  // namespace tessera::cuda
