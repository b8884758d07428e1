// What the ranks of a run agree to do after a step, because signals asked some of them, or an output failed.
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
  /// `asked`: what signals have asked of this process so far. `output_failed`: this rank cannot write what the run is
  /// to leave, so it is to stop.
  explicit AgreedRequests(
      std::function<SignalRequests()> asked, std::function<bool()> output_failed = [] { return false; })
      : asked_(std::move(asked)), output_failed_(std::move(output_failed)) {}

  /// What this rank asks for after the step that begins.
  StepRequests before_step();
  /// `requested`: by all ranks. What this rank was asked up to now is then done with the rest.
  void after_step(const StepRequests& requested);

  bool stops() const { return requested_.stop > 0; }
  bool saves() const { return requested_.save > 0; }
  /// Why the run stops, for a message: "as SIGTERM asked".
  std::string why_it_stops() const;

 private:
  const std::function<SignalRequests()> asked_;
  const std::function<bool()> output_failed_;
  StepRequests requested_;
  int64_t num_saves_ = 0;  // asked of this rank and done
};

}  // namespace tessera::host
