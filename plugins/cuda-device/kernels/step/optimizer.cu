// AdamW and SGD over the ranges of a home, in one kernel: a block a chunk. Elements outside of the ranges stay as they
// are; the result of an element depends on that element of the operands only. All of a home is one launch, whatever its
// number of ranges: weight decay comes with the chunk. Compiled without fused multiply-adds (--fmad=false), so that the
// bits are cpu-device's. Whether the step counts is decided on the GPU (x:CLIP): a skipped step is a kernel that
// returns.
#include <type_traits>

#include "cuda-device/context.h"
#include "cuda-device/kernels/alignment.h"
#include "cuda-device/kernels/fault.cuh"
#include "cuda-device/kernels/launch.h"
#include "cuda-device/kernels/op_table.h"
#include "cuda-device/kernels/step/quad.cuh"
#include "tessera/op_slots.hpp"
#include "tessera/step_scalars.hpp"

namespace tessera::cuda {
namespace {

constexpr unsigned kNumThreads = 256;

/// What a launch works on.
struct Update {
  OptimizerSettings settings;
  const op::Chunk* chunks;
  Fault* fault;
  bool aligned;
  const double *clip, *lr;
  const int64_t* step;
  const float* gradient;
  float *value, *m, *v;
};

// Computed in float64 by one thread of each block, as the CPU does once a chunk: powers of beta need the digits.
template <class Factors>
__device__ Factors factors_of(const Update& update, const op::Chunk& chunk) {
  const OptimizerStep step = OptimizerStep{*update.lr, update.clip[0], *update.step}.scaled(chunk.lr_scale);
  if constexpr (std::is_same_v<Factors, AdamWFactors>)
    return adamw_factors(update.settings, step, chunk.weight_decay);
  else
    return sgd_factors(update.settings, step, chunk.weight_decay);
}

__device__ void update_element(const AdamWFactors& f, float gradient, float& value, float& m, float& v) {
  const float g = gradient * f.coefficient;
  m = f.beta1 * m + f.one_minus_beta1 * g;
  v = f.beta2 * v + f.one_minus_beta2 * (g * g);
  const float denominator = sqrtf(v) * f.inverse_sqrt + f.epsilon;
  value = value * f.decay - f.step_size * (m / denominator);
}
__device__ void update_element(const SgdFactors& f, float gradient, float& value, float& m, float&) {
  const float g = gradient * f.coefficient + f.weight_decay * value;
  m = f.momentum * m + g;
  value = value - f.lr * m;
}

template <class Factors>
__device__ void update_quad(const Factors& factors, const Update& update, const Quad& quad) {
  constexpr bool kHasV = std::is_same_v<Factors, AdamWFactors>;
  float gradient[4], value[4], m[4], v[4] = {};
  quad.load(update.gradient, gradient);
  quad.load(update.value, value);
  quad.load(update.m, m);
  if constexpr (kHasV) quad.load(update.v, v);
  for (int k = 0; k < 4; ++k)
    update_element(factors, gradient[k], value[k], m[k], v[k]);
  quad.store(value, update.value);
  quad.store(m, update.m);
  if constexpr (kHasV) quad.store(v, update.v);
}

// A step count of 0 would divide by 1 - beta^0 = 0: it means that no CLIP ran before, and is a fault of the program.
template <class Factors>
__global__ void __launch_bounds__(kNumThreads) optimizer(Update update) {
  if (update.clip[1] == 0) return;
  if (*update.step < 1) {
    if (blockIdx.x == 0 && threadIdx.x == 0) report(update.fault, kFaultStep, static_cast<int>(*update.step), 0, 0);
    return;
  }
  const op::Chunk chunk = update.chunks[blockIdx.x];
  __shared__ Factors of_block;
  if (threadIdx.x == 0) of_block = factors_of<Factors>(update, chunk);
  __syncthreads();
  const Factors factors = of_block;
  for (uint64_t i = chunk.begin / 4 * 4 + 4 * threadIdx.x; i < chunk.end; i += 4 * kNumThreads)
    update_quad(factors, update, Quad{chunk, i, update.aligned});
}

class Optimizer final : public Kernel {
 public:
  Optimizer(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context& context)
      : Optimizer(op, op::chunks_of(op, kChunkElements, kQuadElements), slots, context) {}

  void launch(cudaStream_t stream, void* const* pointers) override {
    const auto* gradient = gradient_.in<const float>(pointers);
    float *value = value_.in(pointers), *m = m_.in(pointers), *v = v_.in(pointers);
    const bool aligned = starts_at_multiple(gradient, 16) && starts_at_multiple(value, 16) &&
                         starts_at_multiple(m, 16) && starts_at_multiple(v, 16);
    const Update update = {settings_,
                           chunks_.as<op::Chunk>(),
                           context_.fault(),
                           aligned,
                           clip_.in<const double>(pointers),
                           lr_.in<const double>(pointers),
                           step_.in<const int64_t>(pointers),
                           gradient,
                           value,
                           m,
                           v};
    cuda::launch(v_.is_bound() ? optimizer<AdamWFactors> : optimizer<SgdFactors>, num_chunks_, kNumThreads, 0, stream,
                 update);
  }

 private:
  Optimizer(const tsr_op& op, const std::vector<op::Chunk>& chunks, std::span<const tsr_slot_spec> slots,
            Context& context)
      : settings_(op),
        context_(context),
        gradient_(op::find_operand(slots, TSR_ROLE_SOURCE, 0)),
        value_(op::find_operand(slots, TSR_ROLE_DESTINATION, 0)),
        m_(op::find_operand(slots, TSR_ROLE_STATE, 0)),
        v_(op::find_operand(slots, TSR_ROLE_STATE, 1)),
        clip_(op::find_operand(slots, TSR_ROLE_SCALAR, TSR_SCALAR_CLIP)),
        step_(op::find_operand(slots, TSR_ROLE_SCALAR, TSR_SCALAR_STEP)),
        lr_(op::find_operand(slots, TSR_ROLE_SCALAR, TSR_SCALAR_LR)),
        num_chunks_(static_cast<unsigned>(chunks.size())),
        chunks_(std::as_bytes(std::span(chunks))) {
    for (const uint32_t slot :
         {TSR_SLOT(TSR_ROLE_DESTINATION, 0), TSR_SLOT(TSR_ROLE_STATE, 0), TSR_SLOT(TSR_ROLE_STATE, 1)})
      op::refuse_write(slots, slot);
  }

  const OptimizerSettings settings_;
  Context& context_;
  const op::Operand gradient_, value_, m_, v_, clip_, step_, lr_;
  const unsigned num_chunks_;
  const DeviceTable chunks_;
};

std::unique_ptr<Kernel> prepare(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context& context) {
  return std::make_unique<Optimizer>(op, slots, context);
}

}  // namespace

const OpImpl kOptimizer{op::step_slots, prepare};

}  // namespace tessera::cuda
