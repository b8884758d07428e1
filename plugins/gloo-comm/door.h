// The listening side of a meeting.
#pragma once

#include <functional>
#include <list>

#include "gloo-comm/greeting.h"
#include "gloo-comm/poller.h"

namespace tessera::gloo_comm {

/// A connection to the member `peer`, who is who it says.
using OnMember = std::function<void(int peer, Descriptor socket)>;

/// Where members connect to this one. Strangers may come at any time and in any number: they are dropped as soon as
/// they say a wrong word, when they are silent for long, or when there are too many, and cost one descriptor each until
/// then.
class Door {
 public:
  /// Listens at once, at a port that the system chooses and that is put into `address`; knows at most `max_callers` > 0
  /// strangers at a time. `where` begins the sentences of its errors. Throws as listen_at().
  Door(std::string where, size_t max_callers, Address& address)
      : where_(std::move(where)), max_callers_(max_callers), listener_(listen_at(address)) {}

  /// Adds to `poller`, which is done last, what accepts connections to member `own`. RESOURCE_EXHAUSTED when there is
  /// no descriptor left for a connection.
  void watch(Poller& poller, const Circle& circle, int own, const OnMember& on_member);

  void close();

 private:
  void let_in(const Circle& circle, int own);
  /// Whose place another may take, or the end.
  std::list<Greeting>::iterator least_likely();
  bool make_room();
  void drop_silent();

  const std::string where_;
  const size_t max_callers_;
  Descriptor listener_;
  std::list<Greeting> callers_;  // oldest first
};

}  // namespace tessera::gloo_comm
