// Runs this program in a child process, so that a crash or a hang cannot take the caller with it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::host {

struct ChildResult {
  int exit_code = -1;  ///< -1: ended by a signal, or it could not be started
  int signal = 0;
  bool was_late = false;  ///< it was killed at the limit of time
  std::string out, err;
  double seconds = 0;

  bool is_ok() const { return exit_code == 0 && !was_late; }
  /// Why it failed: its own last error line, or how the process ended.
  std::string reason() const;
};

/// Runs `tessera ARGUMENTS` without a launcher's variables, and kills it after `limit_ms`. A failure of the child is in
/// the result, not thrown.
ChildResult run_child(const std::vector<std::string>& arguments, int64_t limit_ms);

}  // namespace tessera::host
