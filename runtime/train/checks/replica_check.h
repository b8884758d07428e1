// --debug-replicas: compares what ranks share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/rank_runtime.h"
#include "job/job.h"
#include "train/rank_info.h"
#include "verify/placement/replicated_writes.h"

namespace tessera::host {

/// Every --debug-replicas steps, compares the bits of everything that is proved to be the same on the ranks of an axis
/// (replicated_writes.h) with those of the first rank of the axis. Costs nothing in other steps or without the flag.
/// Collective: every rank calls every function. [control-thread]
class ReplicaCheck {
 public:
  /// Borrows its arguments. Allocates device memory, so it is made before any rank runs a program.
  ReplicaCheck(const Job& job, const RankInfo& info, RankRuntime& runtime);

  /// `step` counts from 0.
  void before_step(int64_t step);
  /// Throws DATA_LOSS, with the same sentence on all ranks: the first action whose result differs, the buffer, and two
  /// ranks.
  void after_step(int64_t step);

 private:
  /// A program of a step.
  struct Variant {
    const Program* program;
    Executable* executable;
    std::vector<ReplicatedWrite> writes;
    std::vector<std::string> keys;  // of the writes: a hash, the same on the ranks that write the same
  };
  bool is_due(int64_t step) const { return every_ > 0 && (step + 1) % every_ == 0; }
  Variant& variant(int64_t step) { return variants_[static_cast<size_t>(step) % variants_.size()]; }
  std::string first_difference(const Variant& own) const;
  std::string difference_on(int axis, const Variant& own) const;
  std::string describe(int axis, const Variant& own, size_t write, const std::vector<std::string>& parties) const;

  const Job& job_;
  const RankInfo& info_;
  const int64_t every_;
  std::vector<Variant> variants_;
};

}  // namespace tessera::host
