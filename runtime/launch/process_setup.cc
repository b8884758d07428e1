#include "launch/process_setup.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string_view>

namespace tessera::host {
namespace {

void say(std::string_view text) {
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

// Only async-signal-safe calls. SA_RESETHAND has restored the default action, which ends the process.
extern "C" void announce(int signal) {
  const char* name = ::sigabbrev_np(signal);
  say("tessera: ended by signal SIG");
  say(name ? name : "?");
  say("\n");
  ::raise(signal);
}

}  // namespace

void announce_ending_signals() {
  for (const int signal : kEndingSignals) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) != 0 || now.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = announce;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(signal, &action, nullptr);
  }
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);  // if it fails, the old limit holds
}

}  // namespace tessera::host
