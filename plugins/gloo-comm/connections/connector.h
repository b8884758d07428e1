// The connecting side of the bootstrap.
#pragma once

#include <optional>
#include <vector>

#include "gloo-comm/connections/listener.h"
#include "tessera/collective.hpp"

namespace tessera::gloo_comm {

/// Connects to members of lower rank and retries until the handshake has succeeded. Members of higher rank connect to
/// this one's Listener; of those the connector only probes whether they still listen.
class Connector {
 public:
  explicit Connector(const Member& member) : member_(member), attempts_(static_cast<size_t>(member.num_ranks)) {}

  /// Where the peer listens.
  void set_address(int peer, const Address& address) { attempt(peer).address = address; }

  /// Continues to connect to `peer`, which is not linked yet: adds the socket to wait for to `poller`. Throws
  /// UNAVAILABLE when the peer has stopped listening, so it has ended or given up.
  void watch(Poller& poller, const GroupKey& group, int peer, const OnMember& on_member);

  /// Why the peer cannot be reached, as far as is known: " (10.0.0.2:4711: No route to host)", or "".
  std::string obstacle(int peer) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Attempt {
    std::optional<Address> address;
    std::optional<Handshake> handshake;  // to a lower rank
    Descriptor probe;                    // to a higher one
    Clock::time_point next_try{};
    std::optional<Clock::time_point> refused_since;
    bool was_listening = false;
    int reason = 0;
  };

  Attempt& attempt(int peer) { return attempts_[static_cast<size_t>(peer)]; }
  void start(const GroupKey& group, int peer);
  void advance(int peer, const OnMember& on_member);
  void advance_probe(int peer);
  void failed(int peer, int reason);

  const Member& member_;
  std::vector<Attempt> attempts_;  // by peer
};

}  // namespace tessera::gloo_comm
