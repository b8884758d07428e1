// o0[N,C] = p0[V,C][i0[N]], for values of any dtype: rows are copied, and those of tokens of other parts of the
// vocabulary are zero. Backward adds rows, in float32, in the order of the tokens: a thread takes a range of columns.
// Cut by tokens, two threads could meet at one row of the table, which would need atomics and have no fixed order.
#include <cstddef>
#include <cstring>

#include "cpu-device/kernels/op_table.h"
#include "cpu-device/kernels/operands.h"
#include "cpu-device/kernels/parallel_rows.h"
#include "cpu-device/kernels/tokens.h"

namespace tessera::cpu {
namespace {

struct Shape {
  explicit Shape(const tsr_op& op)
      : rows(num_rows(op)), columns(extent(op, TSR_DIM_EMBED)), table_rows(extent(op, TSR_DIM_VOCAB)), part(op) {}

  void check(const int32_t* tokens) const { check_ids(tokens, rows, static_cast<uint64_t>(part.total), kToken); }

  uint64_t rows, columns, table_rows;
  op::VocabularyPart part;
};

class Forward : public Kernel {
 public:
  Forward(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : shape_(op),
        row_bytes_(TSR_NUM_BYTES(op.dtype, shape_.columns)),
        num_threads_(num_threads),
        table_(find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        tokens_(find_operand(slots, TSR_ROLE_INPUT, 0)),
        output_(find_operand(slots, TSR_ROLE_OUTPUT, 0)) {}

  void run(void* const* pointers) override {
    const auto* tokens = tokens_.in<const int32_t>(pointers);
    shape_.check(tokens);
    const auto* table = table_.in<const std::byte>(pointers);
    auto* output = output_.in<std::byte>(pointers);
    parallel_for(num_threads_, shape_.rows, row_grain(shape_.columns), [&](uint64_t begin, uint64_t end, int) {
      for (uint64_t n = begin; n < end; ++n) {
        const int64_t row = shape_.part.row_of(tokens[n]);
        if (row >= 0)
          std::memcpy(output + n * row_bytes_, table + static_cast<uint64_t>(row) * row_bytes_, row_bytes_);
        else
          std::memset(output + n * row_bytes_, 0, row_bytes_);
      }
    });
  }

 private:
  const Shape shape_;
  const uint64_t row_bytes_;
  const int num_threads_;
  const Operand table_, tokens_, output_;
};

class Backward : public Kernel {
 public:
  Backward(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : shape_(op),
        num_threads_(num_threads),
        tokens_(find_operand(slots, TSR_ROLE_INPUT, 0)),
        output_gradient_(find_operand(slots, TSR_ROLE_OUTPUT_GRADIENT, 0)),
        table_gradient_(find_operand(slots, TSR_ROLE_GRADIENT, 0)) {}

  void run(void* const* pointers) override {
    float* dtable = table_gradient_.in(pointers);
    if (!dtable) return;
    const auto* tokens = tokens_.in<const int32_t>(pointers);
    shape_.check(tokens);
    if (!table_gradient_.accumulates) clear(dtable);
    const auto add = TESSERA_SIMD_CHOOSE(add);
    const float* dy = output_gradient_.in(pointers);
    parallel_for(num_threads_, shape_.columns, kColumnGrain, [&](uint64_t begin, uint64_t end, int) {
      for (uint64_t n = 0; n < shape_.rows; ++n) {
        const int64_t row = shape_.part.row_of(tokens[n]);
        if (row < 0) continue;
        float* sum = dtable + static_cast<uint64_t>(row) * shape_.columns + begin;
        add(sum, dy + n * shape_.columns + begin, end - begin, sum);
      }
    });
  }

 private:
  void clear(float* table) const {
    parallel_for(
        num_threads_, shape_.table_rows * shape_.columns, kElementGrain,
        [&](uint64_t begin, uint64_t end, int) { std::memset(table + begin, 0, (end - begin) * sizeof(float)); });
  }

  const Shape shape_;
  const int num_threads_;
  const Operand tokens_, output_gradient_, table_gradient_;
};

}  // namespace

const OpImpl kTokenEmbedding{op::segment_slots, prepare_forward_or_backward<Forward, Backward>};

}  // namespace tessera::cpu
