// Which process is which rank, for the key-value store's server.
#pragma once

#include <map>
#include <string>

#include "launch/participant.h"

namespace tessera::host {

/// Counts the connections of each rank's process. Participants that are no ranks are always let in and never lost.
class StoreMembers {
 public:
  /// A connection of `who` is there. Empty, or why it may not stay: another process is that rank, or was.
  std::string join(const Participant& who);
  void say_goodbye(const Participant& who);
  /// A connection of `who`, who had joined, is gone. True when its process is lost: it was the last one, and nobody has
  /// said goodbye; once per rank.
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
