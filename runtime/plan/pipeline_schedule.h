// The schedule of a pipeline in slots: what each stage does when all stages cost the same.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/simulate.h"

namespace tessera::host {

/// A forward or backward of one micro-batch through one chunk (part of the model) of a stage.
struct StageAction {
  bool is_forward = true;
  int micro_batch = 0;
  int chunk = 0;
  auto operator<=>(const StageAction&) const = default;
};

/// A forward takes one slot and a backward two; what moves data takes none, and neither does recomputation.
inline constexpr int kForwardSlots = 1, kBackwardSlots = 2;

struct PipelineSchedule {
  struct Stage {
    int rank = 0;                                         ///< coordinate 0 on the other axes
    std::vector<std::vector<StageAction>> items_by_slot;  ///< none: idle
  };
  std::string axis;
  int num_micro_batches = 1, num_chunks = 1;
  std::vector<Stage> stages;

  /// Idle slots over all slots.
  double bubble() const;
  /// (p - 1) / (v m + p - 1) for p stages, m micro-batches, v chunks.
  double expected_bubble() const;
};

/// Of step programs that have passed verify_ranks; nothing for a mesh without an axis that splits layers.
std::optional<PipelineSchedule> pipeline_schedule(const Mesh& mesh, const RankClasses& classes,
                                                  const ProgramOf& program);

/// A row for each stage: "F3" and "B3" are micro-batch 3, "F3.1" with several chunks that of the second, '.' is idle.
std::string schedule_text(const PipelineSchedule& schedule);

}  // namespace tessera::host
