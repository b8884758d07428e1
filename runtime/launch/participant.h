// The process at the other end of a connection to the key-value store.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::host {

/// A process of the job; the same on all its connections.
struct Participant {
  int rank = -1;  ///< -1: not a rank, such as a watcher or a test
  int64_t pid = 0;
  std::string host;

  bool operator==(const Participant&) const = default;
};

/// This process, as `rank`.
Participant this_process(int rank);
/// "process 733 on node1"
std::string to_string(const Participant& participant);

}  // namespace tessera::host
