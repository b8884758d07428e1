// The schedule of a pipeline in time slots, if all stages cost the same.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/simulate.h"

namespace tessera::host {

/// A forward or backward of one micro-batch through one chunk of a stage's layers.
struct StageAction {
  bool is_forward = true;
  int micro_batch = 0;
  int chunk = 0;
  auto operator<=>(const StageAction&) const = default;
};

/// A forward takes one slot, a backward two; moving data and recomputation take none.
inline constexpr int kForwardSlots = 1, kBackwardSlots = 2;

struct PipelineSchedule {
  struct Stage {
    int rank = 0;                                           ///< coordinate 0 on the other axes
    std::vector<std::vector<StageAction>> actions_by_slot;  ///< empty: idle
  };
  std::string axis;
  int num_micro_batches = 1, num_chunks = 1;
  std::vector<Stage> stages;

  /// Idle slots over all slots.
  double bubble() const;
  /// (p - 1) / (v m + p - 1) for p stages, m micro-batches, v chunks.
  double expected_bubble() const;
};

/// The schedule of step programs that have passed verify_ranks; nothing without an axis that splits layers.
std::optional<PipelineSchedule> pipeline_schedule(const Mesh& mesh, const RankClasses& classes,
                                                  const ProgramOf& program);

/// A row for each stage: "F3" and "B3" are micro-batch 3, "F3.1" is its forward through the second chunk, '.' is idle.
std::string schedule_text(const PipelineSchedule& schedule);

}  // namespace tessera::host
