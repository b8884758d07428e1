// What the ranks of a run agree to do after a step, because signals asked some of them.
#pragma once

#include <functional>
#include <string>

#include "exec/run_words.h"
#include "launch/run_signals.h"

namespace tessera::host {

/// Of one rank; all ranks call it after the same steps and have the same answers. A signal that comes during a step is
/// in the run words of the next one, so the run stops at most one step later. [control-thread]
class AgreedRequests {
 public:
  /// `asked`: what signals have asked of this process so far.
  explicit AgreedRequests(std::function<SignalRequests()> asked) : asked_(std::move(asked)) {}

  /// What this rank asks for after the step that begins.
  StepRequests before_step();
  /// `requested`: by all ranks. What this rank was asked up to now is then done with the rest.
  void after_step(const StepRequests& requested);

  bool stops() const { return requested_.stop > 0; }
  bool saves() const { return requested_.save > 0; }
  /// What asked the run to stop, for a message: "SIGTERM", or "a signal to another rank".
  std::string who_stops() const;

 private:
  const std::function<SignalRequests()> asked_;
  StepRequests requested_;
  int64_t num_saves_ = 0;  // asked of this rank and done
};

}  // namespace tessera::host
