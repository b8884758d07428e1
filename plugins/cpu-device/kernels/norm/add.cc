// o0 = i0 + i1 + p0: the residual connection at the end of a block, with the bias of the product before it. The
// gradient of i1 is the buffer of o0's, so only i0's is made. Bound by memory: three tensors of [N,C] forward, one pass
// each for di0 and g0 backward.
#include "cpu-device/kernels/op_table.h"
#include "cpu-device/kernels/operands.h"
#include "cpu-device/kernels/parallel_rows.h"

namespace tessera::cpu {
namespace {

class Forward : public Kernel {
 public:
  Forward(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : rows_(num_rows(op)),
        columns_(extent(op, TSR_DIM_EMBED)),
        num_threads_(num_threads),
        bias_(find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        residual_(find_operand(slots, TSR_ROLE_INPUT, 0)),
        branch_(find_operand(slots, TSR_ROLE_INPUT, 1)),
        output_(find_operand(slots, TSR_ROLE_OUTPUT, 0)) {}

  void run(void* const* pointers) override {
    const auto add_bias = TESSERA_SIMD_CHOOSE(add_bias);
    parallel_for(num_threads_, rows_, row_grain(columns_), [&](uint64_t begin, uint64_t end, int) {
      const uint64_t offset = begin * columns_;
      add_bias(residual_.in(pointers) + offset, branch_.in(pointers) + offset, bias_.in(pointers), end - begin,
               columns_, output_.in(pointers) + offset);
    });
  }

 private:
  const uint64_t rows_, columns_;
  const int num_threads_;
  const Operand bias_, residual_, branch_, output_;
};

class Backward : public Kernel {
 public:
  Backward(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : rows_(num_rows(op)),
        columns_(extent(op, TSR_DIM_EMBED)),
        num_threads_(num_threads),
        output_gradient_(find_operand(slots, TSR_ROLE_OUTPUT_GRADIENT, 0)),
        residual_gradient_(find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 0)),
        bias_gradient_(find_operand(slots, TSR_ROLE_GRADIENT, 0)) {}

  void run(void* const* pointers) override {
    const float* dy = output_gradient_.in(pointers);
    if (float* dx = residual_gradient_.in(pointers))
      add_or_copy(dy, rows_ * columns_, residual_gradient_.accumulates, dx, num_threads_);
    if (float* dbias = bias_gradient_.in(pointers))
      sum_columns(dy, rows_, columns_, bias_gradient_.accumulates, dbias, num_threads_);
  }

 private:
  const uint64_t rows_, columns_;
  const int num_threads_;
  const Operand output_gradient_, residual_gradient_, bias_gradient_;
};

}  // namespace

const OpImpl kAdd{op::segment_slots, prepare_forward_or_backward<Forward, Backward>};

}  // namespace tessera::cpu
