// Detects that a run cannot recover, so that it ends with an error instead of "done".
#pragma once

#include <string>

#include "exec/rank_runtime.h"
#include "job/job.h"
#include "train/rank_info.h"

namespace tessera::host {

/// A step is good when it updated the parameters and its loss is finite. After a bad step all ranks inspect the
/// parameters that they hold, unless they did since the last update; so a run without bad steps pays for one
/// inspection, at its end. The run is lost
///  - when an element of a parameter is not finite, since it stays so;
///  - after --max-skipped-steps bad steps in a row. In float16 some are normal: each lowers the loss scale;
///  - when its last loss is not finite.
/// With --debug-memory the error also names the first action of the last step that wrote a value that is not finite.
///
/// Collective: every rank calls every function after the same steps, and all of them throw, or none. [control-thread]
class LostRunCheck {
 public:
  /// Borrows its arguments.
  LostRunCheck(const Job& job, const RankInfo& info, RankRuntime& runtime);

  /// `step` counts from 1. Throws FAILED_PRECONDITION, with the same sentence on all ranks: the first parameter, in the
  /// order of the model, that is not finite, or the largest element of all, and the last good step.
  void after_step(int64_t step, const StepResult& result);
  /// Inspects the parameters, unless they were since the last update: what is not finite must not replace what was
  /// saved before. Throws the same.
  void before_saving();
  /// Also inspects the result of the last update, since no loss follows it. Throws the same.
  void after_last_step();

 private:
  void look(const std::string& when);
  std::string advice() const;
  std::string first_action_of(int64_t step, const StepResult& result) const;
  std::string first_action() const;
  [[noreturn]] void fail(const std::string& why) const;

  const Job& job_;
  const RankInfo& info_;
  RankRuntime& runtime_;
  int64_t last_good_step_ = 0;
  int64_t num_not_good_ = 0;  // bad steps in a row, up to now
  bool last_loss_is_finite_ = true;
  std::string first_action_;  // this rank's first action in the last step that wrote a value that is not finite
  int num_looks_ = 0;         // inspections of the parameters, by all ranks
  bool has_changed_ = true;   // parameters were updated since the last inspection
  std::string largest_;       // element, as text, at the last inspection
};

}  // namespace tessera::host
