// A plugin may fork to execute another program (CUDA's library does). A child that returns into the host instead would
// be a second process of the same rank, with the same connections and files. It is ended as soon as it returns.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::host {

/// Declares this process the host, and every process forked from it a copy. To be called again in a child that the host
/// forks to call plugins. Copies go unnoticed if no page or pipe can be allocated. [control-thread]
void mark_process();

/// In a page that every fork clears. Not 0 before mark_process().
extern constinit const volatile uint32_t* process_mark;
/// Whether this process was forked by a plugin, which did not execute a program in it. Costs a load.
inline bool is_copy_of_host() noexcept {
  return *process_mark == 0;
}
/// Ends the copy and reports its function to the host; prints the message itself if the host has ended. Safe after a
/// fork in a process of many threads.
[[noreturn]] void end_copy() noexcept;

/// The function from which a copy has returned, or null. Waits up to `wait_ms` until no copy is left; with a wait it
/// can be called once. [any-thread]
const void* returned_copy(int wait_ms = 0) noexcept;
/// The end of a message about it, and the whole message with the function's name.
inline constexpr const char* kForked =
    " forked, and the child returned into the host, where it was ended; a child must exec a program or call _exit";
std::string copy_sentence(const void* function);

/// False when somebody has closed what this process keeps open for its copies, and with it, it seems, whatever was
/// open.
bool host_files_are_open() noexcept;

}  // namespace tessera::host
