// SUM_SQUARES, CLIP, ADAMW and SGD: what happens once a step, on homes.
//
//     sum_squares(home)...  ->  x:ACCUMULATOR  -> all_reduce over the ranks (int64)  ->  clip  ->  x:CLIP, x:STEP
//     optimizer(home)...    reads x:CLIP and x:STEP, so no gradient is rewritten to be clipped
//
// The sum is exact (accumulator.hpp), hence the same for every cut over homes, threads and ranks, and so is the
// decision to skip a step whose gradients overflowed. STEP counts in CLIP and not on the host: a step that runs as a
// graph, or is skipped, counts right all the same.
#include <memory>
#include <string>

#include "cpu-device/kernels/op_table.h"
#include "cpu-device/kernels/parallel.h"
#include "cpu-device/kernels/step/optimizer.h"
#include "cpu-device/kernels/step/sum_squares.h"
#include "tessera/error.hpp"
#include "tessera/op_chunks.hpp"
#include "tessera/op_slots.hpp"
#include "tessera/step_scalars.hpp"

namespace tessera::cpu {
namespace {

/// Elements of a chunk: small enough to stay in a core's cache, large enough to be worth a call.
constexpr uint64_t kChunkElements = 16384;

constexpr uint32_t kSource = TSR_SLOT(TSR_ROLE_SOURCE, 0), kValue = TSR_SLOT(TSR_ROLE_DESTINATION, 0);
constexpr uint32_t kM = TSR_SLOT(TSR_ROLE_STATE, 0), kV = TSR_SLOT(TSR_ROLE_STATE, 1);
constexpr uint32_t kAccumulator = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_ACCUMULATOR);
constexpr uint32_t kClipScalars = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_CLIP);
constexpr uint32_t kStep = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_STEP);
constexpr uint32_t kLossScale = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_LOSS_SCALE);
constexpr uint32_t kLr = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_LR);

/// Where the operands of a kernel are among its pointers.
class Positions {
 public:
  explicit Positions(std::span<const tsr_slot_spec> slots) : slots_(slots.begin(), slots.end()) {}
  bool has(uint32_t slot) const { return op::slot_index(slots_, slot) >= 0; }
  template <class T>
  T* get(void* const* pointers, uint32_t slot) const {
    return static_cast<T*>(pointers[op::slot_index(slots_, slot)]);
  }
  uint32_t mode(uint32_t slot) const { return slots_[static_cast<size_t>(op::slot_index(slots_, slot))].mode; }

 private:
  std::vector<tsr_slot_spec> slots_;
};

/// Each thread sums its chunks into an accumulator of its own; they are added at the end, which is exact in any order.
class SumSquares final : public Kernel {
 public:
  SumSquares(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : positions_(slots), chunks_(op::chunks_of(op, kChunkElements)), partial_(static_cast<size_t>(num_threads)) {}

  void run(void* const* pointers) override {
    const auto* source = positions_.get<const float>(pointers, kSource);
    const AccumulatorView sum(positions_.get<int64_t>(pointers, kAccumulator), TSR_ACCUMULATOR_LIMBS);
    if (positions_.mode(kAccumulator) == TSR_MODE_WRITE) std::fill(sum.begin(), sum.end(), 0);
    parallel_for(static_cast<int>(partial_.size()), chunks_.size(), 1, [&](uint64_t begin, uint64_t end, int thread) {
      Accumulator limbs{};
      SquaresSum squares(limbs);
      for (uint64_t i = begin; i < end; ++i)
        squares.add(source + chunks_[i].begin, chunks_[i].end - chunks_[i].begin);
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
  const std::vector<op::Chunk> chunks_;
  std::vector<Accumulator> partial_;  // of each thread; zero between runs
};

/// Three scalars from one: too little for a team.
class Clip final : public Kernel {
 public:
  Clip(const tsr_op& op, std::span<const tsr_slot_spec> slots, int)
      : positions_(slots),
        arrivals_(static_cast<int64_t>(op.attributes[TSR_ATTR_ARRIVALS])),
        max_norm_(op.attributes[TSR_ATTR_MAX_NORM]) {}

  void run(void* const* pointers) override {
    const ConstSquaresView squares(positions_.get<const int64_t>(pointers, kAccumulator), TSR_SQUARES_WORDS);
    double* clip = positions_.get<double>(pointers, kClipScalars);
    const double scale = positions_.has(kLossScale) ? *positions_.get<const double>(pointers, kLossScale) : 1.0;
    const ClipScalars result = clip_scalars(squares, arrivals_, max_norm_, scale);
    clip[0] = result.coefficient;
    clip[1] = result.ok ? 1.0 : 0.0;
    clip[2] = result.norm;
    if (result.ok) ++*positions_.get<int64_t>(pointers, kStep);
  }

 private:
  const Positions positions_;
  const int64_t arrivals_;
  const double max_norm_;
};

/// What AdamW and SGD share: nothing happens unless the step is ok; then every chunk is updated.
class Optimizer : public Kernel {
 public:
  Optimizer(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads)
      : positions_(slots), chunks_(op::chunks_of(op, kChunkElements)), num_threads_(num_threads), settings_(op) {}

  void run(void* const* pointers) override {
    const double* clip = positions_.get<const double>(pointers, kClipScalars);
    if (clip[1] == 0) return;
    const OptimizerStep step = {*positions_.get<const double>(pointers, kLr), clip[0],
                                *positions_.get<const int64_t>(pointers, kStep)};
    if (step.step < 1)
      throw Error(TSR_E_FAILED_PRECONDITION, "optimizer: the step count is " + std::to_string(step.step) +
                                                 "; clip must count the step before the optimizer runs");
    parallel_for(num_threads_, chunks_.size(), 1, [&](uint64_t begin, uint64_t end, int) {
      for (uint64_t i = begin; i < end; ++i)
        update(pointers, chunks_[i], step);
    });
  }

 protected:
  virtual void update(void* const* pointers, const op::Chunk& chunk, const OptimizerStep& step) const = 0;

  const Positions positions_;
  const std::vector<op::Chunk> chunks_;
  const int num_threads_;
  const OptimizerSettings settings_;
};

class AdamW final : public Optimizer {
  using Optimizer::Optimizer;

  void update(void* const* pointers, const op::Chunk& chunk, const OptimizerStep& step) const override {
    loop_(positions_.get<float>(pointers, kValue) + chunk.begin,
          positions_.get<const float>(pointers, kSource) + chunk.begin,
          positions_.get<float>(pointers, kM) + chunk.begin, positions_.get<float>(pointers, kV) + chunk.begin,
          chunk.end - chunk.begin, adamw_factors(settings_, step.scaled(chunk.lr_scale), chunk.weight_decay));
  }

  const decltype(&simd_baseline::adamw) loop_ = TESSERA_SIMD_CHOOSE(adamw);
};

class Sgd final : public Optimizer {
  using Optimizer::Optimizer;

  void update(void* const* pointers, const op::Chunk& chunk, const OptimizerStep& step) const override {
    loop_(positions_.get<float>(pointers, kValue) + chunk.begin,
          positions_.get<const float>(pointers, kSource) + chunk.begin,
          positions_.get<float>(pointers, kM) + chunk.begin, chunk.end - chunk.begin,
          sgd_factors(settings_, step.scaled(chunk.lr_scale), chunk.weight_decay));
  }

  const decltype(&simd_baseline::sgd) loop_ = TESSERA_SIMD_CHOOSE(sgd);
};

template <class Op>
std::unique_ptr<Kernel> prepare(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads) {
  for (const uint32_t slot : {kValue, kM, kV, kStep})
    op::refuse_write(slots, slot);
  return std::make_unique<Op>(op, slots, num_threads);
}

}  // namespace

const OpImpl kSumSquares{op::step_slots, prepare<SumSquares>};
const OpImpl kClip{op::step_slots, prepare<Clip>};
const OpImpl kAdamW{op::step_slots, prepare<AdamW>};
const OpImpl kSgd{op::step_slots, prepare<Sgd>};

}  // namespace tessera::cpu
