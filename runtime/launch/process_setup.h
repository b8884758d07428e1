// What a process sets up before it takes part in a job: signals that end it in good order, the limit of descriptors.
#pragma once

#include <array>
#include <csignal>
#include <string_view>

namespace tessera::host {

/// Sent by terminals, closing shells, Slurm and other queues, and resource limits. In a run SIGINT, SIGTERM and SIGUSR1
/// are requests (run_signals.h).
inline constexpr std::array kEndingSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU};

/// nohup starts programs with SIGHUP ignored, and shells those in the background with SIGINT. They stay so.
bool is_ignored(int signal);

/// SIGCHLD, and those of kEndingSignals that are not ignored: what a process that waits for others blocks and takes.
sigset_t signals_of_parent();

/// Blocks SIGUSR1 in this thread and those that it starts: one that comes while a run starts would end it. It is
/// pending until RunSignals or launch_ranks() takes it. Programs that are started have it blocked, too.
void hold_save_requests();
/// Ignores SIGUSR1 in this process and those that it starts: commands without steps save nothing.
void ignore_save_requests();

/// For a process that our launcher does not watch: it prints which of kEndingSignals ends it, and then ends. Signals
/// that are ignored stay ignored.
void announce_ending_signals();

/// "tessera: ", the text before, the signal's name and the text after, as one line on standard error. Safe in handlers.
void say_signal(std::string_view before, int signal, std::string_view after);
/// Ends the process as the signal's default action does; `says` it before. Process 1 of a container, which the system
/// does not let die of a signal, exits with 128 + signal. Safe in handlers.
[[noreturn]] void end_by_signal(int signal, bool says);

/// Raises the limit of open descriptors to what the system allows this user: a store needs a few for each rank, and
/// many systems start programs with a limit of 1,024.
void raise_descriptor_limit();
/// Throws RESOURCE_EXHAUSTED where this process may have too few descriptors for any command: else what lacks one is
/// blamed, a plugin or a folder that could not be read.
void require_descriptors();
/// Throws RESOURCE_EXHAUSTED where this process has too little stack for any command: it would crash in whatever needs
/// more first.
void require_stack();

}  // namespace tessera::host
