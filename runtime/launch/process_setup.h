// What a process sets up before it takes part in a job: signals that end it in good order, the limit of descriptors.
#pragma once

#include <array>
#include <csignal>

namespace tessera::host {

/// Sent by terminals, closing shells, Slurm and other queues, and resource limits.
inline constexpr std::array kEndingSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU};

/// For a process that our launcher does not watch: it prints which of kEndingSignals ends it, and then ends. Signals
/// that are ignored stay ignored.
void announce_ending_signals();

/// Raises the limit of open descriptors to what the system allows this user: a store needs a few for each rank, and
/// many systems start programs with a limit of 1,024.
void raise_descriptor_limit();

}  // namespace tessera::host
