// Notices that a run cannot recover, so that it ends with an error instead of "done".
#pragma once

#include <string>

#include "exec/rank_runtime.h"
#include "train/train_rank.h"

namespace tessera::host {

/// A step is good when it updated the parameters and its loss is finite. After one that is not good all ranks look at
/// the parameters they hold, unless they did since the last update; so a run without such steps pays for one look, at
/// its end. The run is lost
///  - when an element of a parameter is not finite: it stays so;
///  - after --max-skipped-steps in a row that were not good. In float16 some are normal: each lowers the loss scale;
///  - when its last loss is not finite.
/// With --debug-memory it also says which action first wrote a value that is not finite, in the last step.
///
/// Every rank calls every function, after the same steps; all of them throw, or none. [control-thread]
class LostRunCheck {
 public:
  /// Borrows all three.
  LostRunCheck(const Job& job, const RankInfo& info, RankRuntime& runtime);

  /// `step` counts from 1. Throws FAILED_PRECONDITION, the same sentence on all ranks: the first parameter in the order
  /// of the model that is not finite, or the largest element of all, and the last good step.
  void after_step(int64_t step, const StepResult& result);
  /// The last update is looked at too: no loss follows it. Throws the same.
  void after_last_step();

 private:
  void look(const std::string& when);
  std::string advice() const;
  std::string first_action_of(int64_t step, const StepResult& result) const;
  std::string first_action() const;
  [[noreturn]] void fail(const std::string& why) const;

  const Job& job_;
  const RankInfo& place_;
  RankRuntime& runtime_;
  int64_t last_good_step_ = 0;
  int64_t num_not_good_ = 0;  // in a row, up to now
  bool last_loss_is_finite_ = true;
  std::string first_action_;  // of this rank in the last step that wrote what is not finite
  int num_looks_ = 0;         // at the parameters, by all ranks
  bool has_changed_ = true;   // the parameters, since they were looked at
  std::string largest_;       // element, as text, when they were
};

}  // namespace tessera::host
