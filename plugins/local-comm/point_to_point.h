// The point-to-point messages of local-comm: SEND, RECV and EXCHANGE.
#pragma once

#include <vector>

#include "local-comm/monitor.h"

namespace tessera::local {

/// Messages between two ranks of a group. Nothing is buffered: a receiver copies from the sender's memory, and the
/// sender waits for the end of the copy.
class PointToPoint {
 public:
  explicit PointToPoint(Monitor& monitor) : monitor_(monitor) {}

  /// Sends and receives all messages of `collective`, in whatever order they become possible. Throws DEADLINE with the
  /// missing peers, the group's failure, or INVALID_ARGUMENT when the two sides of a message differ. When it returns or
  /// throws, no other rank touches this rank's memory any more.
  void exchange(const Member& member, const Collective& collective);

 private:
  struct Message {
    const Collective* owner;
    const Transfer* transfer;  // of the sender
    int source;
    bool is_taken;  // a receiver is reading it
  };

  Message* find(const Transfer& receive, int destination);
  bool has_messages_of(const Collective& collective) const;
  void receive(Monitor::Lock& lock, const Transfer& receive, const Member& member, const Collective& collective);
  void withdraw(Monitor::Lock& lock, const Collective& collective);
  void give_up(Monitor::Lock& lock, const Member& member, const Collective& collective,
               const std::vector<const Transfer*>& receives);

  Monitor& monitor_;
  std::vector<Message> messages_;  // guarded by monitor_: posted and not yet received
};

}  // namespace tessera::local
