// What a plugin does to the process that it runs in: crashes and exits are reported with its name.
#pragma once

namespace tessera::host {

/// From now on a crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTRAP) first says in which plugin's function
/// it is, as one line on standard error, and then ends the process as it would have done: the signal, the exit code and
/// the core are the same. Outside of plugins' calls it says in which the thread was last. Timers (SIGALRM, SIGVTALRM,
/// SIGPROF) do nothing, as the host sets none. And a call of exit() before end_of_program() ends the process with 1 and
/// the plugin's name, whatever code it was given; so does _exit() in a plugin. Call it once, first in main().
/// [control-thread]
void report_crashes();

/// The program ends by itself: exit() is what it seems from now on. If a copy of this process comes back into the host
/// now (process_copy.h), the run ends with 1 and the plugin's name.
void end_of_program();

}  // namespace tessera::host
