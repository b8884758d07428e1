// The order in which a stage runs the forwards and backwards of its micro-batches.
#pragma once

#include <string_view>
#include <vector>

namespace tessera::pipeline {

enum class Schedule {
  gpipe,        ///< all forwards, then all backwards
  one_f_one_b,  ///< a backward as soon as possible: at most num_stages - stage micro-batches in flight
  interleaved,  ///< 1f1b over several virtual stages on each stage: a smaller bubble, more messages
};
/// gpipe | 1f1b | interleaved_1f1b
Schedule parse_schedule(std::string_view text);

/// The forward or backward of one micro-batch through one of the stage's chunks, the virtual stages that it runs.
struct ScheduledAction {
  bool is_forward = true;
  int micro_batch = 0;
  int chunk = 0;
  bool operator==(const ScheduledAction&) const = default;
};

/// The dimensions of a schedule.
struct Shape {
  int num_stages = 1;
  int num_chunks = 1;  ///< virtual stages on each stage
  int num_micro_batches = 1;
};

/// Throws INVALID_ARGUMENT, with the possible values, for a shape that the schedule does not support.
void check_fits(Schedule schedule, const Shape& shape);

/// One stage's actions of a step. Each (micro-batch, chunk) has one forward and one backward, and the backwards of a
/// chunk are by ascending micro-batch, so that all schedules add gradients in the same order.
std::vector<ScheduledAction> step_schedule(Schedule schedule, const Shape& shape, int stage);
/// Whether a stage may post the receives of `item` before the action that precedes it, `previous`, so that they overlap
/// with its compute, without a deadlock between stages that run their lists in order.
bool receives_early(Schedule schedule, const Shape& shape, int stage, const ScheduledAction& previous,
                    const ScheduledAction& item);
/// Forwards only, in an order without deadlock.
std::vector<ScheduledAction> eval_schedule(const Shape& shape);

}  // namespace tessera::pipeline
