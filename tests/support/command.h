// A program run to its end inside a test.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "support/patience.h"

namespace tessera::testing {

struct CommandResult {
  int exit_code = -1;  ///< 128 + n when signal n ended it
  std::string out, err;
};

/// A child process with its output kept in files. Killed, with its group, when the object goes.
class Command {
 public:
  /// `environment` is added to this process's; a variable with an empty value is removed.
  explicit Command(std::vector<std::string> argv, const std::map<std::string, std::string>& environment = {});
  ~Command();
  Command(const Command&) = delete;

  int pid() const { return pid_; }
  /// What it has written to stderr until now.
  std::string err() const;
  /// Waits until it has written `text` to stderr; returns false when it ends before, or does not write it.
  bool wait_for(std::string_view text) const;
  /// Waits for its end; kills it after `timeout` and throws.
  CommandResult wait(std::chrono::milliseconds timeout = kPatience);

 private:
  int pid_ = -1;
  bool ended_ = false;
  std::string out_file_, err_file_;
};

CommandResult run_command(std::vector<std::string> argv, const std::map<std::string, std::string>& environment = {});

}  // namespace tessera::testing
