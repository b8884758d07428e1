// Which process is which rank, for the key-value store's server.
#pragma once

#include <map>
#include <string>

#include "launch/participant.h"

namespace tessera::host {

/// Counts the connections of each rank's process. Participants without a rank are always admitted and never lost.
class StoreMembers {
 public:
  /// A connection of `who` has arrived. Empty, or why it is refused: another process is or was that rank.
  std::string join(const Participant& who);
  void say_goodbye(const Participant& who);
  /// A connection of `who`, which had joined, has closed. True when the process is lost: it was the last connection and
  /// there was no goodbye; once per rank.
  bool leave(const Participant& who);

 private:
  struct Rank {
    Participant process;
    int num_connections = 0;
    bool said_goodbye = false;
    bool is_lost = false;
  };
  std::map<int, Rank> ranks_;
};

}  // namespace tessera::host
