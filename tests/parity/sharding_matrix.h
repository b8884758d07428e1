// The settings that may not change a bit: how the jobs of the sharding tests differ, and the job each is held against.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "support/covering.h"
#include "support/local_job.h"
#include "support/temp_folder.h"

namespace tessera::testing {

/// The settings that vary. The first value of each is that of the references.
Space sharding_space();

/// Runs rows of the space on one small model of odd sizes and remembers the references.
class ShardingMatrix {
 public:
  ShardingMatrix(Space space, int num_steps);

  const Space& space() const { return space_; }

  /// Empty when the row's run has the bits of its reference: ddp over local-comm on as many data ranks, with the same
  /// arithmetic. Otherwise the first difference, or what was thrown.
  std::string check(const Space::Row& row);

  RunResult run(const Space::Row& row) const;

 private:
  Space::Row reference_of(const Space::Row& row) const;

  Space space_;
  int num_steps_;
  TempFolder model_;
  std::map<Space::Row, RunResult> references_;
};

/// The flags of a row, without model and data.
std::vector<std::string> flags_of(const Space& space, const Space::Row& row);
int num_ranks_of(const Space& space, const Space::Row& row);

}  // namespace tessera::testing
