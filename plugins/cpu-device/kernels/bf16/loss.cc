// loss/loss.cc in bfloat16: the same op, in chunks of tokens whose logits lie in blocks of the vocabulary, each a dense
// matrix of its own, which suits AMX.
//
//     chunk      [ block 0 | block 1 | .. | rest ]    block: [tokens of the chunk, up to 1024 columns]
//
//     logits     block = x table^T                            float32
//     losses     maximum and sum of a row, block by block     as in loss.cc
//     g0         block -> its gradient, rounded, in place;    rows of the table (+)= block^T x, while it is in cache
//     di0        a few rows of all blocks times the table     float32 sums, block after block; rounded once
//
// The cut into blocks and into rows of di0 depends only on the extents, and every sum is computed by one thread: bits
// do not depend on the number of threads.
#include "cpu-device/kernels/bf16/bf16_ops.h"
#include "cpu-device/kernels/bf16/head_products.h"
#include "cpu-device/kernels/bf16/rows.h"
#include "cpu-device/kernels/loss/lm_head.h"
#include "cpu-device/kernels/loss/token_loss.h"
#include "cpu-device/kernels/operands.h"
#include "cpu-device/kernels/tokens.h"

namespace tessera::cpu {
namespace {

constexpr uint64_t kMaxTokens = 256;  // of a chunk: a block fits a second-level cache

struct Shape : LmHeadShape {
  explicit Shape(const tsr_op& op)
      : LmHeadShape(op), chunk(std::min(kMaxTokens, loss_chunk_length(rows, vocabulary))) {}

  uint64_t chunk;  // tokens at once
};

/// Tokens [first, first + num_tokens) of the op.
struct Chunk {
  uint64_t first, num_tokens;
};

class Loss : public Kernel {
 public:
  Loss(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : shape_(op),
        is_backward_(op.phase == TSR_PHASE_BACKWARD),
        num_threads_(num_threads),
        products_(shape_.columns, shape_.vocabulary),
        scalars_(op, slots),
        table_(find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        input_(find_operand(slots, TSR_ROLE_INPUT, 0)),
        targets_(find_operand(slots, TSR_ROLE_INPUT, 1)),
        logits_(find_operand(slots, TSR_ROLE_WORKSPACE, 0)),
        losses_(find_operand(slots, TSR_ROLE_WORKSPACE, 1)),
        maxima_(find_operand(slots, TSR_ROLE_WORKSPACE, 2)),
        sums_(find_operand(slots, TSR_ROLE_WORKSPACE, 3)),
        dx_sums_(find_operand(slots, TSR_ROLE_WORKSPACE, 4)),
        input_gradient_(find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 0)),
        table_gradient_(find_operand(slots, TSR_ROLE_GRADIENT, 0)) {
    products_.prepare(shape_.chunk, is_backward_);
    if (const uint64_t rest = shape_.rows % shape_.chunk; rest > 0) products_.prepare(rest, is_backward_);
  }

  void run(void* const* pointers) override {
    check_targets(targets_.in<const int32_t>(pointers), shape_.rows, shape_.vocabulary, kTarget);
    const AccumulatorView loss = scalars_.start_loss(pointers);
    for (uint64_t first = 0; first < shape_.rows; first += shape_.chunk) {
      const Chunk chunk{first, std::min(shape_.chunk, shape_.rows - first)};
      multiply(pointers, chunk);
      add_losses(pointers, chunk, loss);
      if (!is_backward_ || (!table_gradient_.is_bound() && !input_gradient_.is_bound())) continue;
      differentiate(pointers, chunk);
      if (input_gradient_.is_bound()) multiply_back(pointers, chunk);
    }
  }

 private:
  const uint16_t* input(void* const* pointers, const Chunk& chunk) const {
    return input_.in<const uint16_t>(pointers) + chunk.first * shape_.columns;
  }
  const int32_t* targets(void* const* pointers, const Chunk& chunk) const {
    return targets_.in<const int32_t>(pointers) + chunk.first;
  }
  float* block(void* const* pointers, const Chunk& chunk, uint64_t b) const {
    return logits_.in(pointers) + products_.offset(chunk.num_tokens, b);
  }
  /// Valid after differentiate(): the first half of the block.
  const uint16_t* block_gradient(void* const* pointers, const Chunk& chunk, uint64_t b) const {
    return reinterpret_cast<const uint16_t*>(block(pointers, chunk, b));
  }

  template <class Body>
  void for_each_block(const Body& body) const {
    parallel_for_throwing(num_threads_, products_.num_blocks(), 1, [&](uint64_t begin, uint64_t end, int) {
      for (uint64_t b = begin; b < end; ++b)
        body(b);
    });
  }

  void multiply(void* const* pointers, const Chunk& chunk) const {
    for_each_block([&](uint64_t b) {
      products_.multiply(chunk.num_tokens, b, input(pointers, chunk), table_.in<const uint16_t>(pointers),
                         block(pointers, chunk, b));
    });
  }

  void add_losses(void* const* pointers, const Chunk& chunk, const AccumulatorView& loss) const {
    parallel_for(num_threads_, chunk.num_tokens, 1, [&](uint64_t begin, uint64_t end, int) {
      for (uint64_t n = begin; n < end; ++n)
        find_loss(pointers, chunk, n);
    });
    for (uint64_t n = 0; n < chunk.num_tokens; ++n)
      accumulate(loss, double{losses_.in(pointers)[n]});
    carry(loss);
  }

  /// Computes the loss of the chunk's token n, and the maximum and the sum that its gradient needs.
  void find_loss(void* const* pointers, const Chunk& chunk, uint64_t n) const {
    const auto row_max = TESSERA_SIMD_CHOOSE(row_max);
    const auto exp_sum = TESSERA_SIMD_CHOOSE(exp_sum);
    float& loss = losses_.in(pointers)[n];
    const int32_t target = targets(pointers, chunk)[n];
    loss = 0.0f;
    if (target == TSR_NO_TARGET) return;
    const auto row = [&](uint64_t b) { return block(pointers, chunk, b) + n * products_.size(b); };
    float max = row_max(row(0), products_.size(0));
    for (uint64_t b = 1; b < products_.num_blocks(); ++b)
      max = std::max(max, row_max(row(b), products_.size(b)));
    double sum = 0.0;
    for (uint64_t b = 0; b < products_.num_blocks(); ++b)
      sum += exp_sum(row(b), products_.size(b), max, 1.0f);
    const auto t = static_cast<uint64_t>(target), of_target = t / HeadProducts::kBlockColumns;
    loss = token_loss(double{max}, sum, double{row(of_target)[t - products_.begin(of_target)]});
    maxima_.in(pointers)[n] = max;
    sums_.in<double>(pointers)[n] = sum;
  }

  void differentiate(void* const* pointers, const Chunk& chunk) const {
    const double scale = scalars_.gradient_scale(pointers);
    for_each_block([&](uint64_t b) {
      for (uint64_t n = 0; n < chunk.num_tokens; ++n)
        differentiate_row(pointers, chunk, b, n, scale);
      if (float* dtable = table_gradient_.in(pointers))
        products_.table_gradient(chunk.num_tokens, b, block_gradient(pointers, chunk, b), input(pointers, chunk),
                                 table_gradient_.accumulates || chunk.first > 0, dtable);
    });
  }

  /// Row n of the gradient ends where row n / 2 of the logits did, so rows that are still to be read stay.
  void differentiate_row(void* const* pointers, const Chunk& chunk, uint64_t b, uint64_t n, double scale) const {
    const uint64_t size = products_.size(b);
    float* const logits = block(pointers, chunk, b);
    uint16_t* const gradient = reinterpret_cast<uint16_t*>(logits) + n * size;
    const int32_t target = targets(pointers, chunk)[n];
    if (target == TSR_NO_TARGET) return static_cast<void>(std::fill(gradient, gradient + size, uint16_t{0}));
    const uint64_t column = static_cast<uint64_t>(target) - products_.begin(b);  // beyond size if not in this block
    Block row;
    differentiate_softmax({logits + n * size, size, maxima_.in(pointers)[n], sums_.in<double>(pointers)[n],
                           column < size ? static_cast<int64_t>(column) : -1},
                          scale, false, row.data());
    narrow(row.data(), size, gradient);
  }

  void multiply_back(void* const* pointers, const Chunk& chunk) const {
    const EqualParts rows = HeadProducts::gradient_rows(chunk.num_tokens);
    auto* dx = input_gradient_.in<uint16_t>(pointers) + chunk.first * shape_.columns;
    parallel_for_throwing(num_threads_, rows.num_parts, 1, [&](uint64_t begin, uint64_t end, int) {
      float* const sums = dx_sums_.in(pointers);
      for (uint64_t b = 0; b < products_.num_blocks(); ++b)
        products_.input_gradient(chunk.num_tokens, begin, end, b, block_gradient(pointers, chunk, b),
                                 table_.in<const uint16_t>(pointers), b > 0, sums);
      const uint64_t first = rows.begin(begin) * shape_.columns, last = rows.end(end - 1) * shape_.columns;
      store(sums + first, last - first, input_gradient_.accumulates, dx + first);
    });
  }

  const Shape shape_;
  const bool is_backward_;
  const int num_threads_;
  HeadProducts products_;
  const LossScalars scalars_;
  const Operand table_, input_, targets_, logits_, losses_, maxima_, sums_, dx_sums_, input_gradient_, table_gradient_;
};

SlotList describe(const tsr_op& op) {
  SlotList slots = op::segment_slots(op);
  const Shape shape(op);
  slots.insert(slots.end(), {op::workspace(0, shape.chunk * shape.vocabulary), op::workspace(1, shape.chunk),
                             op::workspace(2, shape.chunk), op::workspace(3, shape.chunk, TSR_F64)});
  if (op.phase == TSR_PHASE_BACKWARD) slots.push_back(op::workspace(4, shape.chunk * shape.columns));
  return slots;
}

}  // namespace

const OpImpl kBf16Loss{describe, prepare_kernel<Loss>};

}  // namespace tessera::cpu
