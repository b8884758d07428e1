// The connecting side of a meeting.
#pragma once

#include <optional>
#include <vector>

#include "gloo-comm/door.h"
#include "tessera/collective.hpp"

namespace tessera::gloo_comm {

/// Connects to members, again and again until they have been met. A member connects to those of lower rank; those of
/// higher rank come to its door, and here it is only looked whether their doors are still open.
class Caller {
 public:
  explicit Caller(const Member& member) : member_(member), ways_(static_cast<size_t>(member.num_ranks)) {}

  /// Where the peer listens.
  void set_address(int peer, const Address& address) { way(peer).address = address; }

  /// Goes on with connecting to `peer`, which has not been met yet: what is to be waited for is added to `poller`.
  /// Throws UNAVAILABLE when the peer has stopped listening, so it has ended or given up.
  void watch(Poller& poller, const Circle& circle, int peer, const OnMember& on_member);

  /// Why the peer cannot be reached, as far as is known: " (10.0.0.2:4711: No route to host)", or "".
  std::string obstacle(int peer) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Way {
    std::optional<Address> address;
    std::optional<Greeting> greeting;  // to a lower rank
    Descriptor probe;                  // to a higher one
    Clock::time_point next_try{};
    std::optional<Clock::time_point> refused_since;
    bool was_open = false;
    int reason = 0;
  };

  Way& way(int peer) { return ways_[static_cast<size_t>(peer)]; }
  void start(const Circle& circle, int peer);
  void advance(int peer, const OnMember& on_member);
  void advance_probe(int peer);
  void failed(int peer, int reason);

  const Member& member_;
  std::vector<Way> ways_;  // by peer
};

}  // namespace tessera::gloo_comm
