// o0[N,H*D] = causal softmax attention of i0[N,3*H*D] = q|k|v, head h at columns h*D; s0[B,H,T] log-sum-exp of the
// scores. The threads share out the heads of all sequences.
//
// A head is computed by one thread from beginning to end, so its bits do not depend on the team. Only where there is
// one head (or one thread) the products inside use the whole team; sgemm's bits are the same with any team. Scratch
// is a slot, so it is sized before the team is known: for at most 32 threads, which then is the largest team.
#include <algorithm>

#include "cpu-device/kernels/attention/attention_head.h"
#include "cpu-device/kernels/op_table.h"
#include "cpu-device/kernels/operands.h"
#include "cpu-device/kernels/parallel.h"

namespace tessera::cpu {
namespace {

struct Shape {
  explicit Shape(const tsr_op& op)
      : batch(extent(op, TSR_DIM_BATCH)),
        sequence(extent(op, TSR_DIM_SEQ)),
        heads(extent(op, TSR_DIM_HEADS)),
        head_dim(extent(op, TSR_DIM_HEAD_DIM)),
        width(heads * head_dim) {}

  HeadShape head() const { return {sequence, head_dim, 3 * width, width}; }

  // Scratch is listed before the number of threads is known: there is enough for a large team.
  uint64_t max_threads() const { return std::min(batch * heads, uint64_t{32}); }
  uint64_t scratch_elements(uint64_t blocks) const { return max_threads() * blocks * num_block_elements(sequence); }

  uint64_t batch, sequence, heads, head_dim, width;
};

// Where a head of a sequence begins in the tensors.
struct HeadOffsets {
  uint64_t q, k, v, output, log_sum;
};

HeadOffsets offsets_of(const Shape& shape, uint64_t index) {
  const uint64_t batch = index / shape.heads, column = index % shape.heads * shape.head_dim;
  const uint64_t row = batch * shape.sequence, q = row * 3 * shape.width + column;
  return {q, q + shape.width, q + 2 * shape.width, row * shape.width + column, index * shape.sequence};
}

// Calls body(offsets, thread) for every head; rethrows an exception of one.
template <class Body>
void for_each_head(const Shape& shape, int num_threads, const Body& body) {
  const int team = static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(num_threads), shape.max_threads()));
  parallel_for_throwing(team, shape.batch * shape.heads, 1, [&](uint64_t begin, uint64_t end, int thread) {
    for (uint64_t index = begin; index < end; ++index)
      body(offsets_of(shape, index), static_cast<uint64_t>(thread));
  });
}

class Forward : public Kernel {
 public:
  Forward(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : shape_(op),
        num_threads_(num_threads),
        qkv_(find_operand(slots, TSR_ROLE_INPUT, 0)),
        output_(find_operand(slots, TSR_ROLE_OUTPUT, 0)),
        log_sum_(find_operand(slots, TSR_ROLE_SAVED, 0)),
        scratch_(find_operand(slots, TSR_ROLE_WORKSPACE, 0)) {}

  void run(void* const* pointers) override {
    const float* qkv = qkv_.in(pointers);
    float* output = output_.in(pointers);
    float* log_sum = log_sum_.in(pointers);
    for_each_head(shape_, num_threads_, [&](const HeadOffsets& at, uint64_t thread) {
      float* scratch = scratch_.in(pointers) + thread * num_block_elements(shape_.sequence);
      attend(shape_.head(), qkv + at.q, qkv + at.k, qkv + at.v, scratch, num_threads_,
             output ? output + at.output : nullptr, log_sum ? log_sum + at.log_sum : nullptr);
    });
  }

 private:
  const Shape shape_;
  const int num_threads_;
  const Operand qkv_, output_, log_sum_, scratch_;
};

class Backward : public Kernel {
 public:
  Backward(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : shape_(op),
        num_threads_(num_threads),
        qkv_(find_operand(slots, TSR_ROLE_INPUT, 0)),
        output_(find_operand(slots, TSR_ROLE_OUTPUT, 0)),
        log_sum_(find_operand(slots, TSR_ROLE_SAVED, 0)),
        output_gradient_(find_operand(slots, TSR_ROLE_OUTPUT_GRADIENT, 0)),
        qkv_gradient_(find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 0)),
        scratch_(find_operand(slots, TSR_ROLE_WORKSPACE, 0)) {}

  void run(void* const* pointers) override {
    float* dqkv = qkv_gradient_.in(pointers);
    if (!dqkv) return;
    const float *qkv = qkv_.in(pointers), *output = output_.in(pointers), *dy = output_gradient_.in(pointers);
    const float* log_sum = log_sum_.in(pointers);
    for_each_head(shape_, num_threads_, [&](const HeadOffsets& at, uint64_t thread) {
      float* scratch = scratch_.in(pointers) + thread * 2 * num_block_elements(shape_.sequence);
      attend_backward(shape_.head(),
                      {qkv + at.q, qkv + at.k, qkv + at.v, output + at.output, log_sum + at.log_sum, dy + at.output},
                      scratch, num_threads_, {dqkv + at.q, dqkv + at.k, dqkv + at.v, qkv_gradient_.accumulates});
    });
  }

 private:
  const Shape shape_;
  const int num_threads_;
  const Operand qkv_, output_, log_sum_, output_gradient_, qkv_gradient_, scratch_;
};

SlotList describe(const tsr_op& op) {
  SlotList slots = op::segment_slots(op);
  if (!slots.empty())
    slots.push_back(op::workspace(0, Shape(op).scratch_elements(op.phase == TSR_PHASE_FORWARD ? 1 : 2)));
  return slots;
}

}  // namespace

const OpImpl kAttention{describe, prepare_forward_or_backward<Forward, Backward>};

}  // namespace tessera::cpu
