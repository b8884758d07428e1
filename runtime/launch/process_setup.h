// What a process asks of the system before it takes part in a job: signals that end it in good order, descriptors.
#pragma once

#include <array>
#include <csignal>

namespace tessera::host {

/// From a terminal, a shell that closes, Slurm and other queues, resource limits.
inline constexpr std::array kEndingSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU};

/// For a process that no launcher of ours watches: says which of kEndingSignals ends it, and lets it. Such of them as
/// are ignored stay so.
void announce_ending_signals();

/// Raises the limit of open descriptors to what the system allows this user: a store has a few for each rank, and many
/// systems start programs with 1,024.
void raise_descriptor_limit();

}  // namespace tessera::host
