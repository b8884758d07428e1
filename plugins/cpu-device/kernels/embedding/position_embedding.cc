// o0[N,C] = i0[N,C] + p0[P,C][n % seq], or, of some rows, p0[(ROW_BEGIN + n) % ROW_PERIOD]. The gradient of i0 is the
// buffer of o0's. Rows are grouped into ranges of consecutive positions in prepare, so that run() is a few long
// additions; backward adds the ranges one after another, so the rows of a position are summed in the order of the
// sequences.
#include <algorithm>
#include <cstring>
#include <vector>

#include "cpu-device/kernels/op_table.h"
#include "cpu-device/kernels/operands.h"
#include "cpu-device/kernels/parallel_rows.h"

namespace tessera::cpu {
namespace {

/// Rows of one sequence, in elements: where they are in the tensors, and where their positions are in the table.
struct RowRange {
  uint64_t at, in_table, num_elements;
};

struct Shape {
  explicit Shape(const tsr_op& op)
      : embed(extent(op, TSR_DIM_EMBED)), rows(num_rows(op)), table(extent(op, TSR_DIM_POSITIONS) * embed) {
    const op::PositionRows in_table(op);
    uint64_t position = in_table.begin;
    for (uint64_t row = 0; row < rows; position = 0) {
      const uint64_t num_rows = std::min(rows - row, in_table.period - position);
      ranges.push_back({row * embed, position * embed, num_rows * embed});
      row += num_rows;
    }
  }

  uint64_t embed, rows, table;  // table: elements
  std::vector<RowRange> ranges;
};

class Forward : public Kernel {
 public:
  Forward(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : shape_(op),
        num_threads_(num_threads),
        table_(find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        input_(find_operand(slots, TSR_ROLE_INPUT, 0)),
        output_(find_operand(slots, TSR_ROLE_OUTPUT, 0)) {}

  void run(void* const* pointers) override {
    const auto add = TESSERA_SIMD_CHOOSE(add);
    const float* table = table_.in(pointers);
    for (const RowRange& range : shape_.ranges) {
      const float* x = input_.in(pointers) + range.at;
      const float* positions = table + range.in_table;
      float* y = output_.in(pointers) + range.at;
      parallel_for(num_threads_, range.num_elements, kElementGrain, [&](uint64_t begin, uint64_t end, int) {
        add(x + begin, positions + begin, end - begin, y + begin);
      });
    }
  }

 private:
  const Shape shape_;
  const int num_threads_;
  const Operand table_, input_, output_;
};

class Backward : public Kernel {
 public:
  Backward(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : shape_(op),
        num_threads_(num_threads),
        output_gradient_(find_operand(slots, TSR_ROLE_OUTPUT_GRADIENT, 0)),
        table_gradient_(find_operand(slots, TSR_ROLE_GRADIENT, 0)) {}

  void run(void* const* pointers) override {
    float* dtable = table_gradient_.in(pointers);
    if (!dtable) return;
    const RowRange& first = shape_.ranges.front();
    if (!table_gradient_.accumulates) {  // the first range is copied, what is around it is zero
      const uint64_t end = first.in_table + first.num_elements;
      std::memset(dtable, 0, first.in_table * sizeof(float));
      std::memset(dtable + end, 0, (shape_.table - end) * sizeof(float));
    }
    for (const RowRange& range : shape_.ranges)
      add_or_copy(output_gradient_.in(pointers) + range.at, range.num_elements,
                  table_gradient_.accumulates || &range != &first, dtable + range.in_table, num_threads_);
  }

 private:
  const Shape shape_;
  const int num_threads_;
  const Operand output_gradient_, table_gradient_;
};

}  // namespace

const OpImpl kPositionEmbedding{op::segment_slots, prepare_forward_or_backward<Forward, Backward>};

}  // namespace tessera::cpu
