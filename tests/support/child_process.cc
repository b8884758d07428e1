#include "support/child_process.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <stdexcept>

#include "tessera/key_value.hpp"

namespace tessera::testing {

ChildProcess::ChildProcess(const std::function<void(const Say& say)>& body) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
  id_ = ::fork();
  if (id_ < 0) throw std::runtime_error("no process");
  pipe_ = ends[0];
  if (id_ > 0) {
    ::close(ends[1]);
    return;
  }
  const Say say = [out = ends[1]](std::string_view line) {
    const std::string text = std::string(line) + "\n";
    if (::write(out, text.data(), text.size()) < 0) _exit(2);
  };
  try {
    body(say);
  } catch (const std::exception& error) {
    say(std::string("threw ") + error.what());
  }
  _exit(0);
}

ChildProcess::~ChildProcess() {
  signal(SIGKILL);
  ::waitpid(id_, nullptr, 0);
  ::close(pipe_);
}

void ChildProcess::signal(int number) const {
  ::kill(id_, number);
}

std::string ChildProcess::next_line(int64_t timeout_ms) {
  const Deadline deadline(timeout_ms);
  for (;;) {
    const size_t end = unread_.find('\n');
    if (end != std::string::npos) {
      const std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    pollfd entry{pipe_, POLLIN, 0};
    if (::poll(&entry, 1, static_cast<int>(deadline.left_ms())) <= 0) return "";
    std::array<char, 4096> bytes{};
    const ssize_t num_bytes = ::read(pipe_, bytes.data(), bytes.size());
    if (num_bytes <= 0) return "";
    unread_.append(bytes.data(), static_cast<size_t>(num_bytes));
  }
}

}  // namespace tessera::testing
