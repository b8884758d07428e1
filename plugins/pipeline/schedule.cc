// Schedules as lists of actions. 2 stages, 3 micro-batches; a backward takes two slots:
//
//     gpipe    stage 0    F0 F1 F2 .  .  .  B0 B0 B1 B1 B2 B2
//              stage 1    .  F0 F1 F2 B0 B0 B1 B1 B2 B2 .  .
//     1f1b     stage 0    F0 F1 .  .  B0 B0 F2 B1 B1 .  B2 B2
//              stage 1    .  F0 B0 B0 F1 B1 B1 F2 B2 B2 .  .
//
// gpipe (Huang et al. 2019) runs all forwards first and keeps the activations of all micro-batches. 1f1b
// (PipeDream-Flush, Narayanan et al. 2021) starts a backward as soon as possible: the bubble is the same, (p-1)/(m+p-1)
// of all slots, but stage s keeps the activations of at most p-s micro-batches. interleaved_1f1b (Megatron-LM,
// Narayanan et al. 2021) gives each stage v virtual stages, which divides the bubble by about v and multiplies the
// messages by v.
//
// Invariant: in every schedule the backwards of a chunk run by ascending micro-batch, so gradients are added in one
// order and all schedules give the same bits.

#include "schedule.h"

#include <algorithm>
#include <string>

#include "tessera/error.hpp"

namespace tessera::pipeline {
namespace {

/// The k-th forward and backward of a stage: groups of `num_stages` micro-batches pass through chunk after chunk.
struct InterleavedOrder {
  const Shape& shape;

  int micro_batch(int k) const {
    return k / (shape.num_stages * shape.num_chunks) * shape.num_stages + k % shape.num_stages;
  }
  int chunk(int k) const { return k / shape.num_stages % shape.num_chunks; }
  ScheduledAction forward(int k) const { return {true, micro_batch(k), chunk(k)}; }
  ScheduledAction backward(int k) const { return {false, micro_batch(k), shape.num_chunks - 1 - chunk(k)}; }
};

/// The number of forwards before the first backward, without the one directly before it.
int num_warmup_forwards(Schedule schedule, const Shape& shape, int stage) {
  const int total = shape.num_micro_batches * shape.num_chunks, following = shape.num_stages - stage - 1;
  if (schedule == Schedule::gpipe) return total;
  if (schedule == Schedule::one_f_one_b) return std::min(following, total);
  // Megatron's warm-up: 2 (p - s - 1) + (v - 1) p.
  return std::min(2 * following + (shape.num_chunks - 1) * shape.num_stages, total);
}

[[noreturn]] void refuse(const std::string& text) {
  throw Error(TSR_E_INVALID_ARGUMENT, text);
}

}  // namespace

Schedule parse_schedule(std::string_view text) {
  if (text == "gpipe") return Schedule::gpipe;
  return text == "1f1b" ? Schedule::one_f_one_b : Schedule::interleaved;
}

void check_fits(Schedule schedule, const Shape& shape) {
  const std::string given = "pipeline.virtual-stages=" + std::to_string(shape.num_chunks);
  if (schedule != Schedule::interleaved) {
    if (shape.num_chunks != 1)
      refuse(given + " needs pipeline.schedule=interleaved_1f1b; gpipe and 1f1b have 1 part of the model per stage");
    return;
  }
  if (shape.num_chunks < 2)
    refuse("pipeline.schedule=interleaved_1f1b needs pipeline.virtual-stages of 2 or more; with 1 it is 1f1b");
  if (shape.num_stages < 2)
    refuse(
        "pipeline.schedule=interleaved_1f1b needs an axis of 2 or more ranks; a pipeline of 1 has no bubble to shrink");
  if (shape.num_micro_batches % shape.num_stages != 0) {
    const int below = shape.num_micro_batches / shape.num_stages * shape.num_stages;
    const std::string lower = below > 0 ? std::to_string(below) + " or " : "";
    refuse("pipeline.schedule=interleaved_1f1b needs micro-batches (--grad-accum) in multiples of its " +
           std::to_string(shape.num_stages) + " stages: " + lower + std::to_string(below + shape.num_stages) +
           ", not " + std::to_string(shape.num_micro_batches) + "; 1f1b and gpipe take any number");
  }
}

std::vector<ScheduledAction> step_schedule(Schedule schedule, const Shape& shape, int stage) {
  const InterleavedOrder order{shape};
  const int total = shape.num_micro_batches * shape.num_chunks;
  const int warmup = num_warmup_forwards(schedule, shape, stage);
  std::vector<ScheduledAction> actions;
  for (int k = 0; k < warmup; ++k)
    actions.push_back(order.forward(k));
  for (int k = 0; k < total; ++k) {
    if (warmup + k < total) actions.push_back(order.forward(warmup + k));
    actions.push_back(order.backward(k));
  }
  return actions;
}

// Of two neighboring stages that alternate forward and backward, only one can receive early: the other would wait for
// a message that the first sends after its own receive. Interleaved stages are two actions apart, so both can, except
// for messages from the last stage around to the first, and for the first backward, which may need the forward directly
// before it.
bool receives_early(Schedule schedule, const Shape& shape, int stage, const ScheduledAction& previous,
                    const ScheduledAction& item) {
  if (schedule != Schedule::interleaved) return item.is_forward || !previous.is_forward;
  const bool comes_around = stage == (item.is_forward ? 0 : shape.num_stages - 1);
  return !comes_around && item != ScheduledAction{false, 0, shape.num_chunks - 1};
}

std::vector<ScheduledAction> eval_schedule(const Shape& shape) {
  const InterleavedOrder order{shape};
  std::vector<ScheduledAction> actions;
  for (int k = 0; k < shape.num_micro_batches * shape.num_chunks; ++k)
    actions.push_back(order.forward(k));
  return actions;
}

}  // namespace tessera::pipeline
