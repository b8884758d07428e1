// o0[N,C] = i0[N,C] + p0[P,C][n % seq]. The gradient of i0 is the buffer of o0's.
#include <cstring>
#include <string>

#include "cpu-device/kernels/families.h"
#include "cpu-device/kernels/operands.h"
#include "cpu-device/kernels/parallel_rows.h"
#include "tessera/error.hpp"

namespace tessera::cpu {
namespace {

struct Shape {
  explicit Shape(const tsr_op& op)
      : batch(extent(op, TSR_DIM_BATCH)),
        sequence(extent(op, TSR_DIM_SEQ) * extent(op, TSR_DIM_EMBED)),
        table(extent(op, TSR_DIM_POSITIONS) * extent(op, TSR_DIM_EMBED)) {
    if (table < sequence)
      throw Error(TSR_E_INVALID_ARGUMENT, "a sequence of " + std::to_string(op.dims[TSR_DIM_SEQ]) +
                                              " tokens does not fit " + std::to_string(op.dims[TSR_DIM_POSITIONS]) +
                                              " positions; lower --seq-len");
  }

  uint64_t batch;
  uint64_t sequence, table;  // elements of one sequence and of the table; a sequence adds the head of the table
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
    for (uint64_t b = 0; b < shape_.batch; ++b) {
      const float* x = input_.in(pointers) + b * shape_.sequence;
      float* y = output_.in(pointers) + b * shape_.sequence;
      parallel_for(num_threads_, shape_.sequence, kElementGrain,
                   [&](uint64_t begin, uint64_t end, int) { add(x + begin, table + begin, end - begin, y + begin); });
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
    const bool accumulates = table_gradient_.accumulates;
    for (uint64_t b = 0; b < shape_.batch; ++b)
      add_or_copy(output_gradient_.in(pointers) + b * shape_.sequence, shape_.sequence, accumulates || b > 0, dtable,
                  num_threads_);
    if (!accumulates) std::memset(dtable + shape_.sequence, 0, (shape_.table - shape_.sequence) * sizeof(float));
  }

 private:
  const Shape shape_;
  const int num_threads_;
  const Operand output_gradient_, table_gradient_;
};

SlotList describe(const tsr_op& op) {
  const Shape shape(op);
  const uint64_t elements = shape.batch * shape.sequence;
  switch (op.phase) {
    case TSR_PHASE_FORWARD:
      return {parameter(0, shape.table), input(0, elements), output(0, elements)};
    case TSR_PHASE_BACKWARD:
    case TSR_PHASE_BACKWARD_WEIGHT:
      return {output_gradient(0, elements), gradient(0, shape.table)};
    case TSR_PHASE_BACKWARD_INPUT:
      return {};
    default:
      refuse_phase(op);
  }
}

}  // namespace

const OpFamily kPositionEmbedding{describe, prepare_forward_or_backward<Forward, Backward>};

}  // namespace tessera::cpu
