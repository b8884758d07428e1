// A function in a process of its own, for tests in which death is the point. Fork before the test starts threads.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

namespace tessera::testing {

class ChildProcess {
 public:
  /// The body tells the parent lines of text. What it throws becomes the line "threw <text>"; then the child exits with
  /// 0.
  using Say = std::function<void(std::string_view line)>;
  explicit ChildProcess(const std::function<void(const Say& say)>& body);
  ~ChildProcess();  // kills it, if it still runs
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t id() const { return id_; }
  void signal(int number) const;
  /// The next line the child said; "" when there was none in time, or the child ended.
  std::string next_line(int64_t timeout_ms);

 private:
  pid_t id_ = -1;
  int pipe_ = -1;
  std::string unread_;
};

}  // namespace tessera::testing
