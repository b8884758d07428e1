// Of each pair the higher rank connects and the lower listens, so there is one connection a pair and no tie to break. A
// member of higher rank that dies before it has connected would be noticed by nobody: so its door is probed, by a
// connection that is closed at once.
//
// A refused connection may mean three things: the peer is not listening yet (it is tried again), a firewall (it is
// tried until the deadline, and named there), or a peer that has ended. It counts as the last only where the door has
// been seen open before, or on loopback, and only after 200 ms of refusals.
#include "gloo-comm/caller.h"

#include <cerrno>
#include <cstring>

#include "gloo-comm/limits.h"

namespace tessera::gloo_comm {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRetry(50);
constexpr milliseconds kProbe(300);
// A greeting that takes longer is begun anew, unless the peer may have ended it on its side.
constexpr milliseconds kMaxGreeting(5000);
// A member whose door has been closed for that long has ended, or given up and said so to those it knows.
constexpr milliseconds kMaxRefused(200);

}  // namespace

void Caller::failed(int peer, int reason) {
  Way& to = way(peer);
  const auto now = Clock::now();
  to.next_try = now + kRetry;
  if (reason != 0) to.reason = reason;
  if (reason != ECONNREFUSED) return to.refused_since.reset();
  if (!to.refused_since) to.refused_since = now;
  // A refusal may come from a firewall too, but not where the door has been seen open, nor on the way to oneself.
  const bool is_known = to.was_open || to.address->is_loopback();
  if (!is_known || now - *to.refused_since < kMaxRefused) return;
  const int world_rank = member_.world_rank(peer);
  throw Error(TSR_E_UNAVAILABLE,
              member_.where() + ": create cannot connect to rank " + std::to_string(world_rank) + " at " +
                  to.address->text() + " any more: its process died or has given up",
              world_rank);
}

void Caller::start(const Circle& circle, int peer) {
  Way& to = way(peer);
  const bool is_probe = peer > member_.rank;
  to.next_try = Clock::now() + (is_probe ? kProbe : kRetry);
  Descriptor socket = start_connecting(*to.address);
  if (!socket && (errno == EMFILE || errno == ENFILE)) throw too_few_descriptors(member_.where(), 1);
  if (!socket) return failed(peer, errno);
  if (is_probe)
    to.probe = std::move(socket);
  else
    to.greeting.emplace(circle, std::move(socket), member_.rank, peer);
}

void Caller::advance(int peer, const OnMember& on_member) {
  Way& to = way(peer);
  const Greeting::Result result = to.greeting->advance();
  if (result == Greeting::Result::kPending) return;
  if (result == Greeting::Result::kWelcome) on_member(peer, to.greeting->take());
  const int refusal = to.greeting->refusal();
  to.was_open = to.was_open || refusal == 0;
  to.greeting.reset();
  if (result == Greeting::Result::kDropped) failed(peer, refusal);
}

void Caller::advance_probe(int peer) {
  Way& to = way(peer);
  const int refusal = connect_error(to.probe);
  to.probe.reset();
  to.was_open = to.was_open || refusal == 0;
  failed(peer, refusal);
  to.next_try = Clock::now() + kProbe;
}

void Caller::watch(Poller& poller, const Circle& circle, int peer, const OnMember& on_member) {
  Way& to = way(peer);
  if (!to.address) return;
  const auto now = Clock::now();
  if (to.greeting && !to.greeting->has_proved() && now - to.greeting->since() > kMaxGreeting) {
    to.greeting.reset();
    failed(peer, ETIMEDOUT);
  }
  if (!to.greeting && !to.probe && now >= to.next_try) start(circle, peer);
  if (to.greeting)
    poller.add(to.greeting->socket(), to.greeting->events(), [this, peer, &on_member] { advance(peer, on_member); });
  if (to.probe) poller.add(to.probe, POLLOUT, [this, peer] { advance_probe(peer); });
}

std::string Caller::obstacle(int peer) const {
  const Way& to = ways_[static_cast<size_t>(peer)];
  if (to.reason == 0 || !to.address) return "";
  return " (" + to.address->text() + ": " + std::strerror(to.reason) + ")";
}

}  // namespace tessera::gloo_comm
