// The settings under which offload may not change a bit: how the jobs of the offload tests differ, and the job each is
// held against.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "support/covering.h"
#include "support/local_job.h"
#include "support/temp_folder.h"

namespace tessera::testing {

/// What varies. The first value of each is that of the references.
Space offload_space();

/// The flags of a row without --offload, model and data; and --offload with its options.
std::vector<std::string> job_flags(const Space& space, const Space::Row& row);
std::vector<std::string> offload_flags(const Space& space, const Space::Row& row);
int num_offload_ranks(const Space& space, const Space::Row& row);

/// Runs rows of the space and remembers the references. In fp16 the gradients of the first steps overflow.
class OffloadMatrix {
 public:
  OffloadMatrix(Space space, int num_steps);

  const Space& space() const { return space_; }

  /// Empty when the row's run with the policy has the bits of its reference: the same arithmetic without offload, over
  /// local-comm on the CPU. Otherwise the first difference, or what was thrown.
  std::string check(const Space::Row& row);

  RunResult run(const Space::Row& row, const std::vector<std::string>& more) const;

 private:
  Space::Row reference_of(const Space::Row& row) const;

  Space space_;
  int num_steps_;
  TempFolder large_gradients_;
  std::map<Space::Row, RunResult> references_;
};

}  // namespace tessera::testing
