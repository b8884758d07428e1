// What a plugin does to the process that it runs in: crashes and exits are reported with its name.
#pragma once

#include <signal.h>

#include <array>

namespace tessera::host {

inline constexpr std::array kCrashSignals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTRAP};

/// From now on a crash (kCrashSignals) first says in which plugin's function it is, as one line on standard error, and
/// then ends the process as it would have done: the signal, the exit code and the core are the same. Outside of
/// plugins' calls it says in which the thread was last. Timers (SIGALRM, SIGVTALRM, SIGPROF) do nothing, as the host
/// sets none. And a call of exit() before end_of_program() ends the process with 1 and the plugin's name, whatever code
/// it was given; so does _exit() in a plugin. Call it once, first in main(). [control-thread]
void report_crashes();

/// The program now ends regularly: from here on exit() is not a crash. If a copy of this process has returned into the
/// host (process_copy.h), the run ends with exit code 1 and the name of the plugin.
void end_of_program();

}  // namespace tessera::host
