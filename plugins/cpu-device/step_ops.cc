#include <cmath>
#include <memory>
#include <string>

#include "cpu-device/chunks.h"
#include "cpu-device/kernel.h"
#include "cpu-device/optimizer.h"
#include "cpu-device/parallel.h"
#include "cpu-device/slots.h"
#include "cpu-device/sum_squares.h"
#include "tessera/error.hpp"

namespace tessera::cpu {
namespace {

constexpr uint32_t kSource = TSR_SLOT(TSR_ROLE_SOURCE, 0), kValue = TSR_SLOT(TSR_ROLE_DESTINATION, 0);
constexpr uint32_t kM = TSR_SLOT(TSR_ROLE_STATE, 0), kV = TSR_SLOT(TSR_ROLE_STATE, 1);
constexpr uint32_t kAccumulator = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_ACCUMULATOR);
constexpr uint32_t kClip = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_CLIP);
constexpr uint32_t kStep = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_STEP);
constexpr uint32_t kLossScale = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_LOSS_SCALE);
constexpr uint32_t kLr = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_LR);

/// Where the operands of a kernel stand among its pointers.
class Positions {
 public:
  explicit Positions(std::span<const tsr_slot_spec> slots) : slots_(slots.begin(), slots.end()) {}
  bool has(uint32_t slot) const { return slot_index(slots_, slot) >= 0; }
  template <class T>
  T* get(void* const* pointers, uint32_t slot) const {
    return static_cast<T*>(pointers[slot_index(slots_, slot)]);
  }
  uint32_t mode(uint32_t slot) const { return slots_[static_cast<size_t>(slot_index(slots_, slot))].mode; }

 private:
  std::vector<tsr_slot_spec> slots_;
};

class SumSquares final : public Kernel {
 public:
  SumSquares(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : positions_(slots), chunks_(chunks_of(op)), partial_(static_cast<size_t>(num_threads)) {}

  void run(void* const* pointers) override {
    const auto* source = positions_.get<const float>(pointers, kSource);
    const AccumulatorView sum(positions_.get<int64_t>(pointers, kAccumulator), TSR_ACCUMULATOR_LIMBS);
    if (positions_.mode(kAccumulator) == TSR_MODE_WRITE) std::fill(sum.begin(), sum.end(), 0);
    parallel_for(static_cast<int>(partial_.size()), chunks_.size(), 1, [&](uint64_t begin, uint64_t end, int thread) {
      Accumulator limbs{};
      for (uint64_t i = begin; i < end; ++i)
        sum_squares(source + chunks_[i].offset, chunks_[i].num_elements, limbs);
      partial_[static_cast<size_t>(thread)] = limbs;
    });
    for (Accumulator& limbs : partial_) {
      accumulate(sum, ConstAccumulatorView(limbs));
      limbs = {};
    }
    carry(sum);
  }

 private:
  const Positions positions_;
  const std::vector<tsr_op_range> chunks_;
  std::vector<Accumulator> partial_;  // of each thread; zero between runs
};

class Clip final : public Kernel {
 public:
  Clip(const tsr_op& op, std::span<const tsr_slot_spec> slots)
      : positions_(slots), max_norm_(op.attributes[TSR_ATTR_MAX_NORM]) {}

  void run(void* const* pointers) override {
    const ConstAccumulatorView squares(positions_.get<const int64_t>(pointers, kAccumulator), TSR_ACCUMULATOR_LIMBS);
    double* clip = positions_.get<double>(pointers, kClip);
    const double scale = positions_.has(kLossScale) ? *positions_.get<const double>(pointers, kLossScale) : 1.0;
    const double norm = std::sqrt(decode(squares)) / scale;
    const bool ok = std::isfinite(norm);
    clip[0] = !ok ? 0.0 : (max_norm_ == 0 ? 1.0 : std::min(1.0, max_norm_ / (norm + 1e-6))) / scale;
    clip[1] = ok ? 1.0 : 0.0;
    clip[2] = norm;
    if (ok) ++*positions_.get<int64_t>(pointers, kStep);
  }

 private:
  const Positions positions_;
  const double max_norm_;
};

/// What AdamW and SGD share: nothing happens unless the step is ok; then every chunk is updated.
class Optimizer : public Kernel {
 public:
  Optimizer(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : positions_(slots),
        chunks_(chunks_of(op)),
        num_threads_(num_threads),
        beta1_(op.attributes[TSR_ATTR_BETA1]),
        beta2_(op.attributes[TSR_ATTR_BETA2]),
        epsilon_(op.attributes[TSR_ATTR_EPSILON]) {}

  void run(void* const* pointers) override {
    const double* clip = positions_.get<const double>(pointers, kClip);
    if (clip[1] == 0) return;
    const int64_t step = *positions_.get<const int64_t>(pointers, kStep);
    if (step < 1)
      throw Error(TSR_E_FAILED_PRECONDITION, "optimizer: the step count is " + std::to_string(step) +
                                                 "; clip must count the step before the optimizer runs");
    const double lr = *positions_.get<const double>(pointers, kLr);
    parallel_for(num_threads_, chunks_.size(), 1, [&](uint64_t begin, uint64_t end, int) {
      for (uint64_t i = begin; i < end; ++i)
        update(pointers, chunks_[i], clip[0], lr, step);
    });
  }

 protected:
  virtual void update(void* const* pointers, const tsr_op_range& chunk, double coefficient, double lr,
                      int64_t step) const = 0;

  const Positions positions_;
  const std::vector<tsr_op_range> chunks_;
  const int num_threads_;
  const double beta1_, beta2_, epsilon_;
};

class AdamW final : public Optimizer {
  using Optimizer::Optimizer;

  void update(void* const* pointers, const tsr_op_range& chunk, double coefficient, double lr,
              int64_t step) const override {
    const auto t = static_cast<double>(step);
    AdamWFactors f{};
    f.decay = static_cast<float>(1 - lr * chunk.weight_decay);
    f.coefficient = static_cast<float>(coefficient);
    f.beta1 = static_cast<float>(beta1_);
    f.one_minus_beta1 = static_cast<float>(1 - beta1_);
    f.beta2 = static_cast<float>(beta2_);
    f.one_minus_beta2 = static_cast<float>(1 - beta2_);
    f.step_size = static_cast<float>(lr / (1 - std::pow(beta1_, t)));
    f.inverse_sqrt = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2_, t)));
    f.epsilon = static_cast<float>(epsilon_);
    loop_(positions_.get<float>(pointers, kValue) + chunk.offset,
          positions_.get<const float>(pointers, kSource) + chunk.offset,
          positions_.get<float>(pointers, kM) + chunk.offset, positions_.get<float>(pointers, kV) + chunk.offset,
          chunk.num_elements, f);
  }

  const decltype(&simd_baseline::adamw) loop_ = TESSERA_SIMD_CHOOSE(adamw);
};

class Sgd final : public Optimizer {
  using Optimizer::Optimizer;

  void update(void* const* pointers, const tsr_op_range& chunk, double coefficient, double lr, int64_t) const override {
    const SgdFactors f = {static_cast<float>(chunk.weight_decay), static_cast<float>(coefficient),
                          static_cast<float>(beta1_), static_cast<float>(lr)};
    loop_(positions_.get<float>(pointers, kValue) + chunk.offset,
          positions_.get<const float>(pointers, kSource) + chunk.offset,
          positions_.get<float>(pointers, kM) + chunk.offset, chunk.num_elements, f);
  }

  const decltype(&simd_baseline::sgd) loop_ = TESSERA_SIMD_CHOOSE(sgd);
};

std::vector<tsr_slot_spec> describe(const tsr_op& op) {
  const tsr_slot_spec accumulator = {kAccumulator, TSR_MODE_READ, TSR_I64, 0, TSR_ACCUMULATOR_LIMBS};
  const tsr_slot_spec clip = {kClip, TSR_MODE_READ, TSR_F64, 0, 3}, step = {kStep, TSR_MODE_READ, TSR_I64, 0, 1};
  const auto with_mode = [](tsr_slot_spec slot, uint32_t mode) {
    slot.mode = mode;
    return slot;
  };
  const tsr_slot_spec loss_scale = {kLossScale, TSR_MODE_READ, TSR_F64, TSR_SLOT_OPTIONAL, 1};
  if (op.kind == TSR_OP_CLIP)
    return {accumulator, with_mode(clip, TSR_MODE_WRITE), with_mode(step, TSR_MODE_ADD), loss_scale};

  if (op.dtype != TSR_F32 || (op.gradient_dtype != TSR_F32 && op.gradient_dtype != 0))
    throw Error(TSR_E_UNSUPPORTED, "sums of squares and optimizers compute float32 only, not " + dtype_name(op.dtype) +
                                       " with gradients in " + dtype_name(op.gradient_dtype));
  const uint64_t num_elements = dim(op, TSR_DIM_ELEMENTS);
  const tsr_slot_spec source = {kSource, TSR_MODE_READ, TSR_F32, 0, num_elements};
  if (op.kind == TSR_OP_SUM_SQUARES) return {source, with_mode(accumulator, TSR_MODE_ADD)};
  const auto updated = [&](uint32_t slot) { return tsr_slot_spec{slot, TSR_MODE_ADD, TSR_F32, 0, num_elements}; };
  const tsr_slot_spec lr = {kLr, TSR_MODE_READ, TSR_F64, 0, 1};
  if (op.kind == TSR_OP_SGD) return {updated(kValue), source, updated(kM), clip, step, lr};
  return {updated(kValue), source, updated(kM), updated(kV), clip, step, lr};
}

std::unique_ptr<Kernel> prepare(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads) {
  for (const uint32_t slot : {kValue, kM, kV, kStep})
    refuse_write(slots, slot);
  switch (op.kind) {
    case TSR_OP_SUM_SQUARES:
      return std::make_unique<SumSquares>(op, slots, num_threads);
    case TSR_OP_CLIP:
      return std::make_unique<Clip>(op, slots);
    case TSR_OP_SGD:
      return std::make_unique<Sgd>(op, slots, num_threads);
    default:
      return std::make_unique<AdamW>(op, slots, num_threads);
  }
}

constexpr OpFamily kFamily = {describe, prepare};

}  // namespace

const OpFamily* step_ops(uint32_t kind) {
  return kind >= TSR_OP_SUM_SQUARES && kind <= TSR_OP_SGD ? &kFamily : nullptr;
}

}  // namespace tessera::cpu
