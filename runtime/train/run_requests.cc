#include "train/run_requests.h"

#include <string.h>

namespace tessera::host {

StepRequests AgreedRequests::before_step() {
  const SignalRequests asked = asked_();
  return {asked.stop_signal != 0, asked.num_saves > num_saves_};
}

// Schedulers send SIGUSR1 to all ranks, which do not receive it in the same step: the first that did has all of them
// save, and those that came until then are served with it.
void AgreedRequests::after_step(const StepRequests& requested) {
  requested_ = requested;
  if (saves()) num_saves_ = asked_().num_saves;
}

std::string AgreedRequests::who_stops() const {
  const int signal = asked_().stop_signal;
  return signal == 0 ? "a signal to another rank" : std::string("SIG") + ::sigabbrev_np(signal);
}

}  // namespace tessera::host
