// Threads of the host that mostly wait.
#pragma once

#include <pthread.h>

#include <functional>

namespace tessera::host {

/// Starts a joinable thread with a stack of 256 KiB: the usual 8 MiB would count against ulimit -v. Returns when `body`
/// has begun, so that a process forked from then on finds no lock that a thread in its making holds: those of
/// sanitizers among them. Returns 0, or the system's error, and then nothing was started. `body` must not throw.
int start_small_thread(pthread_t& thread, std::function<void()> body);

}  // namespace tessera::host
