// A text chart of live memory over a step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program/program.h"

namespace tessera::host {

enum class Phase { forward, backward, optimizer };
std::string_view to_string(Phase phase);

/// The phase of each action: that of the last compute or step action up to it (recomputation and the loss belong to the
/// backward).
std::vector<Phase> phases_of(const Program& program);

/// Consecutive actions of one phase.
struct PhaseRun {
  Phase phase = Phase::forward;
  size_t first_action = 0, num_actions = 0;
};
std::vector<PhaseRun> phase_runs(const std::vector<Phase>& phases);

/// At most `width` columns, each of one or more actions, and `height` rows. Memory that stays between steps is drawn
/// '=', the rest '#'. The phases are written under the chart.
std::string timeline_chart(const std::vector<uint64_t>& live, uint64_t state_bytes, const std::vector<Phase>& phases,
                           size_t width = 64, size_t height = 10);

}  // namespace tessera::host
