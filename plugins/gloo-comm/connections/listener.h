// The listening side of the bootstrap.
#pragma once

#include <functional>
#include <list>

#include "gloo-comm/connections/handshake.h"
#include "gloo-comm/connections/poller.h"

namespace tessera::gloo_comm {

/// Called with a connection to the member `peer`, whose identity the handshake has proved.
using OnMember = std::function<void(int peer, Descriptor socket)>;

/// Accepts the connections of other members. Strangers (processes that are not members) may connect at any time and in
/// any number: they are dropped at their first wrong message, when they are idle for long, or when there are too many,
/// and cost one descriptor each until then.
class Listener {
 public:
  /// Listens at once, on a port that the system chooses and that is put into `address`. Keeps at most `max_unknown` > 0
  /// unfinished handshakes. `where` is the prefix of its errors. Throws as listen_at().
  Listener(std::string where, size_t max_unknown, Address& address)
      : where_(std::move(where)), max_unknown_(max_unknown), listener_(listen_at(address)) {}

  /// Adds the sockets that accept connections to member `own`; to be the last addition to `poller`. RESOURCE_EXHAUSTED
  /// when there is no descriptor left for a connection.
  void watch(Poller& poller, const GroupKey& group, int own, const OnMember& on_member);

 private:
  void accept_pending(const GroupKey& group, int own);
  /// The first handshake that may be evicted for a new connection, or the end.
  std::list<Handshake>::iterator first_evictable();
  bool evict_one();
  void drop_idle();

  const std::string where_;
  const size_t max_unknown_;
  Descriptor listener_;
  std::list<Handshake> handshakes_;  // oldest first
};

}  // namespace tessera::gloo_comm
