// In which order a stage runs the forwards and backwards of its micro-batches.
#pragma once

#include <string_view>
#include <vector>

namespace tessera::pipeline {

enum class Schedule {
  gpipe,        ///< all forwards, then all backwards
  one_f_one_b,  ///< a backward as soon as there is one: at most stages - stage micro-batches in flight
  interleaved,  ///< the same over several parts of the model on each stage: a smaller bubble, more messages
};
/// gpipe | 1f1b | interleaved_1f1b
Schedule parse_schedule(std::string_view text);

/// The forward or the backward of one micro-batch through one of the stage's parts of the model (0: the first).
struct Item {
  bool is_forward = true;
  int micro_batch = 0;
  int chunk = 0;
  bool operator==(const Item&) const = default;
};

/// What a schedule is for.
struct Shape {
  int num_stages = 1;
  int num_chunks = 1;  ///< parts of the model on each stage
  int num_micro_batches = 1;
};

/// Throws INVALID_ARGUMENT, with the values that do, for a shape that the schedule does not fit.
void check_fits(Schedule schedule, const Shape& shape);

/// One stage's items of a step. Each (micro-batch, chunk) is there once forward and once backward, and the backwards of
/// a chunk by ascending micro-batches, so that all schedules add gradients in one order.
std::vector<Item> step_items(Schedule schedule, const Shape& shape, int stage);
/// Whether a stage may ask for what `item` needs in front of the item before it, `previous`, so that it arrives while
/// the stage computes: where the stages' lists, run from top to bottom, still come to their end.
bool receives_early(Schedule schedule, const Shape& shape, int stage, const Item& previous, const Item& item);
/// Forwards only, in an order that the stages can follow one after another.
std::vector<Item> eval_items(const Shape& shape);

}  // namespace tessera::pipeline
