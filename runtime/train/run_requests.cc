#include "train/run_requests.h"

#include <string.h>

#include "base/concat.h"

namespace tessera::host {

StepRequests AgreedRequests::before_step() {
  const SignalRequests asked = asked_();
  return {asked.stop_signal != 0 || output_failed_(), asked.num_saves > num_saves_};
}

// Schedulers send SIGUSR1 to all ranks, which do not receive it in the same step: the first that did has all of them
// save, and those that came until then are served with it.
void AgreedRequests::after_step(const StepRequests& requested) {
  requested_ = requested;
  if (saves()) num_saves_ = asked_().num_saves;
}

std::string AgreedRequests::why_it_stops() const {
  const int signal = asked_().stop_signal;
  if (signal != 0) return concat("as SIG", ::sigabbrev_np(signal), " asked");
  return output_failed_() ? "as an output cannot be written" : "as a signal to another rank asked";
}

}  // namespace tessera::host
