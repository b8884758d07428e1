// o0[N,C] = i0[N,C] + p0[P,C][n % seq], or, of some rows, p0[(ROW_BEGIN + n) % ROW_PERIOD]. The gradient of i0 is the
// buffer of o0's. A row of the table's gradient is the sum over the sequences, in their order.
//
// The rows of a rank under sequence parallelism begin in the middle of a sequence: row n of the op is at position
// (first + n) mod period, so the rows of position p are (p - first) mod period and then every period-th.

#include "cuda-device/kernels/launch.h"
#include "cuda-device/kernels/op_table.h"
#include "cuda-device/kernels/row_sums.h"
#include "cuda-device/kernels/vectors.cuh"
#include "tessera/op_slots.hpp"

namespace tessera::cuda {
namespace {

constexpr unsigned kNumThreads = 256;

struct Shape {
  explicit Shape(const tsr_op& op)
      : values(embed_rows(op)), table_rows(op::extent(op, TSR_DIM_POSITIONS)), positions(op) {}

  ValueMatrix values;
  uint64_t table_rows;
  op::PositionRows positions;
};

class Forward final : public Kernel {
 public:
  Forward(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context&)
      : shape_(op),
        table_(op::find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        input_(op::find_operand(slots, TSR_ROLE_INPUT, 0)),
        output_(op::find_operand(slots, TSR_ROLE_OUTPUT, 0)) {}

  void launch(cudaStream_t stream, void* const* pointers) override {
    add_rows(stream, shape_.values, input_.in<void>(pointers), nullptr, table_.in<void>(pointers),
             shape_.positions.begin, shape_.positions.period, output_.in<void>(pointers));
  }

 private:
  const Shape shape_;
  const op::Operand table_, input_, output_;
};

// A thread has one element of the table: rows at its position are `period` apart. No atomics, so the order is fixed.
template <class T>
__global__ void __launch_bounds__(kNumThreads)
    sum_positions(const T* dy, uint64_t rows, uint64_t columns, uint64_t first, uint64_t period, uint64_t num_elements,
                  bool accumulates, float* dtable) {
  const uint64_t i = uint64_t{blockIdx.x} * kNumThreads + threadIdx.x;
  if (i >= num_elements) return;
  const uint64_t position = i / columns, column = i % columns;
  float sum = accumulates ? dtable[i] : 0.0f;
  if (position < period)
    for (uint64_t row = (position + period - first) % period; row < rows; row += period)
      sum += to_float(dy[row * columns + column]);
  dtable[i] = sum;
}

class Backward final : public Kernel {
 public:
  Backward(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context&)
      : shape_(op),
        output_gradient_(op::find_operand(slots, TSR_ROLE_OUTPUT_GRADIENT, 0)),
        table_gradient_(op::find_operand(slots, TSR_ROLE_GRADIENT, 0)) {}

  void launch(cudaStream_t stream, void* const* pointers) override {
    if (!table_gradient_.is_bound()) return;
    with_value_type(shape_.values.dtype, [&](auto zero) {
      using T = decltype(zero);
      const uint64_t num_elements = shape_.table_rows * shape_.values.columns;
      cuda::launch(sum_positions<T>, blocks_for(num_elements, kNumThreads), kNumThreads, 0, stream,
                   output_gradient_.in<const T>(pointers), shape_.values.rows, shape_.values.columns,
                   shape_.positions.begin, shape_.positions.period, num_elements, table_gradient_.accumulates,
                   table_gradient_.in(pointers));
    });
  }

 private:
  const Shape shape_;
  const op::Operand output_gradient_, table_gradient_;
};

}  // namespace

const OpImpl kPositionEmbedding{op::segment_slots, prepare_forward_or_backward<Forward, Backward>};

}  // namespace tessera::cuda
