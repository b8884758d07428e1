// The kernel empties the page in a child, however it was forked (MADV_WIPEONFORK), so one load tells host and copy
// apart after every call; asking for the process's number would be a system call. Only the child of
// vfork shares the memory of the host: ProcessState asks for the number too, and what a call of a step does goes
// unnoticed.
//
// Copies inherit the writing end of a pipe, which closes when they execute a program or end. So the host learns from
// which function a copy has returned and, at the end of the program, whether any copy is still running.

#include "guard/process_copy.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>

#include "base/concat.h"
#include "base/ending.h"
#include "guard/known_functions.h"
#include "guard/thread_calls.h"
#include "guard/write_line.h"

namespace tessera::host {
namespace {

constexpr uint32_t kIsHost = 1;
constexpr size_t kPageBytes = 4096;

volatile uint32_t* page = nullptr;
std::array<int, 2> ends = {-1, -1};  // read by the host, written by copies

void close_end(int& end) {
  if (end >= 0) ::close(end);
  end = -1;
}

}  // namespace

constinit const volatile uint32_t* process_mark = &kIsHost;

void mark_process() {
  if (!page) {
    void* const memory = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || ::madvise(memory, kPageBytes, MADV_WIPEONFORK) != 0) return;
    page = static_cast<uint32_t*>(memory);
  }
  *page = kIsHost;
  process_mark = page;
  for (int& end : ends)
    close_end(end);
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) ends = {-1, -1};
}

void end_copy() noexcept {
  close_end(ends[0]);  // so that writing fails where the host is gone
  ::signal(SIGPIPE, SIG_IGN);
  const void* const function = this_thread_calls.function();
  if (::write(ends[1], &function, sizeof function) != sizeof function) {
    const KnownFunction* known = find_function(function);
    write_line({"tessera: ", known ? "the plugin " : "a plugin", known ? known->plugin : "", known ? " in " : "",
                known ? known->place : "", kForked, "\n"});
  }
  end_process(1);
}

const void* returned_copy(int wait_ms) noexcept {
  const void* function = nullptr;
  if (ends[0] < 0) return nullptr;
  if (wait_ms > 0) {
    close_end(ends[1]);
    pollfd poll{ends[0], POLLIN, 0};
    ::poll(&poll, 1, wait_ms);
  }
  return ::read(ends[0], &function, sizeof function) == sizeof function ? function : nullptr;
}

bool host_files_are_open() noexcept {
  return ends[0] < 0 || ::fcntl(ends[0], F_GETFD) >= 0;
}

std::string copy_sentence(const void* function) {
  return concat(call_text(function), kForked);
}

}  // namespace tessera::host
