// CLIP: the norm of all gradients and the factor that limits it, by one thread, in the float64 of step_scalars.hpp. It
// stays on the GPU: reading the norm on the host would stall the stream in the middle of a step, and cannot be
// captured.
#include "cuda-device/kernels/launch.h"
#include "cuda-device/kernels/op_table.h"
#include "tessera/op_slots.hpp"
#include "tessera/step_scalars.hpp"

namespace tessera::cuda {
namespace {

__global__ void clip(const int64_t* squares, int64_t arrivals, const double* loss_scale, double max_norm,
                     double* result, int64_t* step) {
  const ClipScalars scalars =
      clip_scalars(ConstSquaresView(squares, TSR_SQUARES_WORDS), arrivals, max_norm, loss_scale ? *loss_scale : 1.0);
  result[0] = scalars.coefficient;
  result[1] = scalars.ok ? 1 : 0;
  result[2] = scalars.norm;
  if (scalars.ok) ++*step;
}

class Clip final : public Kernel {
 public:
  Clip(const tsr_op& op, std::span<const tsr_slot_spec> slots)
      : arrivals_(static_cast<int64_t>(op.attributes[TSR_ATTR_ARRIVALS])),
        max_norm_(op.attributes[TSR_ATTR_MAX_NORM]),
        squares_(op::find_operand(slots, TSR_ROLE_SCALAR, TSR_SCALAR_ACCUMULATOR)),
        loss_scale_(op::find_operand(slots, TSR_ROLE_SCALAR, TSR_SCALAR_LOSS_SCALE)),
        clip_(op::find_operand(slots, TSR_ROLE_SCALAR, TSR_SCALAR_CLIP)),
        step_(op::find_operand(slots, TSR_ROLE_SCALAR, TSR_SCALAR_STEP)) {
    op::refuse_write(slots, TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_STEP));
  }

  void launch(cudaStream_t stream, void* const* pointers) override {
    cuda::launch(clip, 1, 1, 0, stream, squares_.in<const int64_t>(pointers), arrivals_,
                 loss_scale_.in<const double>(pointers), max_norm_, clip_.in<double>(pointers),
                 step_.in<int64_t>(pointers));
  }

 private:
  const int64_t arrivals_;
  const double max_norm_;
  const op::Operand squares_, loss_scale_, clip_, step_;
};

std::unique_ptr<Kernel> prepare(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context&) {
  return std::make_unique<Clip>(op, slots);
}

}  // namespace

const OpImpl kClip{op::step_slots, prepare};

}  // namespace tessera::cuda
