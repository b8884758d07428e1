// This program in a process of its own, so that what it tries cannot end or hang the one that asks.
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
  /// Why it failed, in its own words or in a sentence about its end.
  std::string reason() const;
};

/// Runs `tessera ARGUMENTS`, as no launcher's rank, and kills it after `limit_ms`. Never throws what the child does.
ChildResult run_child(const std::vector<std::string>& arguments, int64_t limit_ms);

}  // namespace tessera::host
