// linear/linear.cc in bfloat16: the same op, tile by tile.
//
//     forward          tile of i p -> float32 scratch | + bias | -> s0 | activation | -> o0
//     backward_input   dz = do act'(z), rounded; tile of dz p^T -> float32 scratch | -> di0
//     backward_weight  tile of i^T dz -> g0, in float32 where it lies; column sums of dz -> g1
//
// A value is rounded when it is stored; dz, an operand of both halves, is rounded too, which linear.cc does not do. A
// tile is finished while it is in the cache, so only gradients of parameters exist in float32 as a whole.
#include <optional>

#include "cpu-device/kernels/bf16/bf16_ops.h"
#include "cpu-device/kernels/bf16/rows.h"
#include "cpu-device/kernels/bf16/tiles.h"
#include "cpu-device/kernels/linear/activation.h"
#include "cpu-device/kernels/linear/linear_shape.h"
#include "cpu-device/kernels/operands.h"
#include "cpu-device/kernels/parallel_rows.h"

namespace tessera::cpu {
namespace {

using op::Activation;

class Forward : public Kernel {
 public:
  Forward(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : shape_(op),
        num_threads_(num_threads),
        product_({shape_.rows, shape_.out, shape_.in}, {shape_.in}, {shape_.out}, {}),
        weight_(find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        bias_(find_operand(slots, TSR_ROLE_PARAMETER, 1)),
        input_(find_operand(slots, TSR_ROLE_INPUT, 0)),
        output_(find_operand(slots, TSR_ROLE_OUTPUT, 0)),
        saved_(find_operand(slots, TSR_ROLE_SAVED, 0)),
        scratch_(find_operand(slots, TSR_ROLE_WORKSPACE, 0)) {}

  void run(void* const* pointers) override {
    if (!output_.is_bound() && !saved_.is_bound()) return;
    const auto* input = input_.in<const uint16_t>(pointers);
    const auto* weight = weight_.in<const uint16_t>(pointers);
    product_.run_in_scratch(input, weight, scratch_.in(pointers), num_threads_,
                            [&](const Tile& tile, float* z) { finish(pointers, tile, z); });
  }

 private:
  void finish(void* const* pointers, const Tile& tile, float* z) const {
    const auto add = TESSERA_SIMD_CHOOSE(add);
    std::array<float, TileGrid::kMaxColumns> bias;
    if (shape_.has_bias) widen(bias_.in<const uint16_t>(pointers) + tile.column, tile.num_columns, bias.data());
    auto* output = output_.in<uint16_t>(pointers);
    auto* saved = saved_.in<uint16_t>(pointers);
    for (uint64_t r = 0; r < tile.num_rows; ++r) {
      float* row = z + r * tile.num_columns;
      const uint64_t at = (tile.row + r) * shape_.out + tile.column;
      if (shape_.has_bias) add(row, bias.data(), tile.num_columns, row);
      if (saved) narrow(row, tile.num_columns, saved + at);
      if (!output) continue;
      activate(row, tile.num_columns);
      narrow(row, tile.num_columns, output + at);
    }
  }

  void activate(float* row, uint64_t num_elements) const {
    if (shape_.activation == Activation::kGelu) TESSERA_SIMD_CHOOSE(gelu)(row, num_elements, row);
    if (shape_.activation == Activation::kRelu) TESSERA_SIMD_CHOOSE(relu)(row, num_elements, row);
  }

  const LinearShape shape_;
  const int num_threads_;
  const TiledProduct product_;
  const Operand weight_, bias_, input_, output_, saved_, scratch_;
};

/// The gradient of z, rounded, from that of the output.
void differentiate(Activation activation, const uint16_t* z, const uint16_t* dy, uint64_t num_elements, uint16_t* dz,
                   int num_threads) {
  const auto f =
      activation == Activation::kGelu ? TESSERA_SIMD_CHOOSE(gelu_backward) : TESSERA_SIMD_CHOOSE(relu_backward);
  parallel_for(num_threads, num_elements, kElementGrain, [&](uint64_t first, uint64_t last, int) {
    for_each_block(first, last, [&](uint64_t begin, uint64_t end) {
      Block arguments, gradients;
      widen(z + begin, end - begin, arguments.data());
      widen(dy + begin, end - begin, gradients.data());
      f(arguments.data(), gradients.data(), end - begin, gradients.data());
      narrow(gradients.data(), end - begin, dz + begin);
    });
  });
}

class InputHalf {
 public:
  InputHalf(const LinearShape& shape, std::span<const tsr_slot_spec> slots, int num_threads)
      : shape_(shape),
        num_threads_(num_threads),
        product_({shape.rows, shape.in, shape.out}, {shape.out}, {shape.out, true}, {}),
        weight_(find_operand(slots, TSR_ROLE_PARAMETER, 0)),
        input_gradient_(find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 0)),
        scratch_(find_operand(slots, TSR_ROLE_WORKSPACE, kScratch)) {}

  static constexpr uint32_t kScratch = 1;  // 0 is the context of a whole backward

  void run(void* const* pointers, const uint16_t* dz) const {
    auto* dx = input_gradient_.in<uint16_t>(pointers);
    if (!dx) return;
    product_.run_in_scratch(
        dz, weight_.in<const uint16_t>(pointers), scratch_.in(pointers), num_threads_,
        [&](const Tile& tile, float* sums) { store_tile(tile, sums, input_gradient_.accumulates, shape_.in, dx); });
  }

 private:
  const LinearShape shape_;
  const int num_threads_;
  const TiledProduct product_;
  const Operand weight_, input_gradient_, scratch_;
};

// Needs only dz from the input half, as in linear.cc.
class WeightHalf {
 public:
  WeightHalf(const LinearShape& shape, std::span<const tsr_slot_spec> slots, int num_threads)
      : shape_(shape),
        num_threads_(num_threads),
        input_(find_operand(slots, TSR_ROLE_INPUT, 0)),
        weight_gradient_(find_operand(slots, TSR_ROLE_GRADIENT, 0)),
        bias_gradient_(find_operand(slots, TSR_ROLE_GRADIENT, 1)),
        product_({shape.in, shape.out, shape.rows}, {shape.in, true}, {shape.out},
                 {shape.out, weight_gradient_.accumulates}) {}

  void run(void* const* pointers, const uint16_t* dz) const {
    if (float* gradient = weight_gradient_.in(pointers))
      product_.run_in_place(input_.in<const uint16_t>(pointers), dz, gradient, num_threads_);
    if (bias_gradient_.is_bound())
      sum_columns(dz, shape_.rows, shape_.out, bias_gradient_.accumulates, bias_gradient_.in(pointers), num_threads_);
  }

 private:
  const LinearShape shape_;
  const int num_threads_;
  const Operand input_, weight_gradient_, bias_gradient_;
  const TiledProduct product_;
};

class Backward : public Kernel {
 public:
  Backward(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : shape_(op),
        num_threads_(num_threads),
        saved_(find_operand(slots, TSR_ROLE_SAVED, 0)),
        output_gradient_(find_operand(slots, TSR_ROLE_OUTPUT_GRADIENT, 0)),
        z_gradient_(find_context(op, slots, 0)) {
    if (has_input_half(op.phase)) input_half_.emplace(shape_, slots, num_threads);
    if (has_weight_half(op.phase)) weight_half_.emplace(shape_, slots, num_threads);
  }

  void run(void* const* pointers) override {
    const bool is_linear = shape_.activation == Activation::kNone;
    const auto* dy = output_gradient_.in<const uint16_t>(pointers);
    auto* dz = z_gradient_.in<uint16_t>(pointers);
    if (!is_linear && input_half_)
      differentiate(shape_.activation, saved_.in<const uint16_t>(pointers), dy, shape_.rows * shape_.out, dz,
                    num_threads_);
    if (input_half_) input_half_->run(pointers, is_linear ? dy : dz);
    if (weight_half_) weight_half_->run(pointers, is_linear ? dy : dz);
  }

 private:
  const LinearShape shape_;
  const int num_threads_;
  const Operand saved_, output_gradient_, z_gradient_;
  std::optional<InputHalf> input_half_;
  std::optional<WeightHalf> weight_half_;
};

SlotList describe(const tsr_op& op) {
  const LinearShape shape(op);
  SlotList slots = op::segment_slots(op);
  if (op.phase == TSR_PHASE_FORWARD)
    slots.push_back(op::workspace(0, tile_scratch_elements({shape.rows, shape.out})));
  else if (shape.activation != Activation::kNone)
    slots.push_back(op::context(op.phase, 0, shape.rows * shape.out, TSR_BF16));
  if (op.phase != TSR_PHASE_FORWARD && has_input_half(op.phase))
    slots.push_back(op::workspace(InputHalf::kScratch, tile_scratch_elements({shape.rows, shape.in})));
  return slots;
}

}  // namespace

const OpImpl kBf16Linear{describe, prepare_forward_or_backward<Forward, Backward>};

}  // namespace tessera::cpu
