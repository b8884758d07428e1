// A plugin may fork to execute another program (CUDA's library does). A child that returns into the host instead would
// be a second one: the same rank, with the same connections and files. It is ended where it comes back.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::host {

/// From now on this process is the host, and what is forked from it a copy. Again in a child of the host's own that
/// calls plugins. Without a page or a pipe for it copies are not noticed. [control-thread]
void mark_process();

/// In a page that every fork empties. Not 0 before mark_process().
extern constinit const volatile uint32_t* process_mark;
/// Whether this process was forked by a plugin, which did not execute a program in it. Costs a load.
inline bool is_copy_of_host() noexcept {
  return *process_mark == 0;
}
/// Ends the copy, and tells the host the function that it is in; prints the sentence where the host has ended. Safe
/// after a fork in a process of many threads.
[[noreturn]] void end_copy() noexcept;

/// The function from which a copy has come back, or null. Waits until no copy is left, for `wait_ms` at most; with a
/// wait it can be called once. [any-thread]
const void* returned_copy(int wait_ms = 0) noexcept;
/// The end of a sentence about it; and all of it, with the function's name.
inline constexpr const char* kForked =
    " forked, and the child came back into the host, where it was ended; a child executes a program or calls _exit";
std::string copy_sentence(const void* function);

/// False when somebody has closed what this process keeps open for its copies, and with it, it seems, whatever was open.
bool host_files_are_open() noexcept;

}  // namespace tessera::host
