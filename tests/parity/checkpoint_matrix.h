// Saved x loaded: kinds of layouts at 1 to 8 ranks, communicators, and settings of the run between.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "parity/checkpoint_layouts.h"
#include "support/covering.h"

namespace tessera::testing {

/// Factors: saved, saved-ranks, saved-comm; loaded, loaded-ranks, loaded-comm; setting.
Space checkpoint_space();

/// The kinds that split state each in their own way, and all the others: modes of these, and offload policies.
const std::vector<std::string>& kinds_of_split();
const std::vector<std::string>& other_kinds();

class CheckpointMatrix {
 public:
  /// Runs save after 3 steps, and what loads that goes on for so many.
  explicit CheckpointMatrix(int num_more_steps);

  /// Runs under one layout, saves, and goes on under the other: with the same state, and then as the run that was under
  /// the other layout from that state on. Where both layouts add the same sums, that is the one that never stopped.
  /// Returns what differs first, or the error of a run; empty: nothing does.
  std::string check(const Space::Row& row);

  const Space& space() const { return space_; }
  /// A name for the sums that the layout which saves, or loads, adds: layouts of one name have equal bits.
  std::string sums(const Space::Row& row, const std::string& which) const;
  /// Where the run of a row's saver was when it saved.
  RunState saved_state(const Space::Row& row);

 private:
  struct Side {
    std::string kind, comm;
    int num_ranks;
    auto operator<=>(const Side&) const = default;
  };
  struct WholeRun {
    RunResult result;
    std::string folder;  // of its checkpoints
    std::string from;    // the checkpoint that it resumed from; empty: it began at step 1
  };

  Side side(const Space::Row& row, const std::string& which) const;
  RunResult run(const Side& side, const std::string& setting, int num_steps,
                const std::vector<std::string>& more) const;
  std::vector<std::string> flags_of(const Side& side, const std::string& setting) const;
  std::vector<std::string> limit_for(const Side& side, const std::string& setting) const;
  const WholeRun& whole_run(const Side& side, const std::string& setting);
  const WholeRun& run_from_own(const Side& side, const std::string& setting, const std::string& sums,
                               const std::string& own);
  std::string compare(const Space::Row& row);

  const Space space_ = checkpoint_space();
  const int num_steps_;
  TempFolder folder_, model_, data_;
  std::map<std::pair<Side, std::string>, WholeRun> whole_runs_;                   // by layout and setting
  std::map<std::tuple<Side, std::string, std::string>, WholeRun> runs_from_own_;  // and by the sums of the saver
};

}  // namespace tessera::testing
