// Signals that end a job in good order.
#pragma once

#include <array>
#include <csignal>

namespace tessera {

/// From a terminal, a shell that closes, Slurm and other queues, resource limits.
inline constexpr std::array kEndingSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU};

/// For a process that no launcher of ours watches: says which of kEndingSignals ends it, and lets it. Such of them as
/// are ignored stay so.
void announce_ending_signals();

}  // namespace tessera
