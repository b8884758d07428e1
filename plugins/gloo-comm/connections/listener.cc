// The port is open to anyone for as long as create takes. The cost of strangers is bounded: one descriptor each, at
// most max_unknown of them, 5 s idle, and none of their bytes reaches gloo. When all places are taken, a new connection
// evicts the handshake least likely to be a member's: one without a valid hello for 10 ms, then one that has not
// finished within a second. So a flood delays members and cannot keep them out (docs/decisions/0021).
#include "gloo-comm/connections/listener.h"

#include <algorithm>
#include <cerrno>

#include "gloo-comm/connections/descriptor_limits.h"

namespace tessera::gloo_comm {
namespace {

constexpr int kMaxAccepts = 64;  // per round, so that the other sockets get their turn
constexpr std::chrono::seconds kMaxIdle(5);
// A handshake cannot be evicted for this long before a valid hello, and in total.
constexpr std::chrono::milliseconds kMaxHello(10), kMaxHandshake(1000);

}  // namespace

// A member whose handshake is evicted in a flood connects again.
std::list<Handshake>::iterator Listener::first_evictable() {
  const auto now = std::chrono::steady_clock::now();
  const auto is_old = [&](const Handshake& handshake) {
    return now - handshake.since() > (handshake.peer() < 0 ? kMaxHello : kMaxHandshake);
  };
  return std::ranges::find_if(handshakes_, is_old);
}

bool Listener::evict_one() {
  const auto handshake = first_evictable();
  if (handshake == handshakes_.end()) return false;
  handshakes_.erase(handshake);
  return true;
}

void Listener::drop_idle() {
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(handshakes_, [&](const Handshake& handshake) { return now - handshake.since() > kMaxIdle; });
}

void Listener::accept_pending(const GroupKey& group, int own) {
  for (int i = 0; i < kMaxAccepts; ++i) {
    if (handshakes_.size() >= max_unknown_ && !evict_one()) return;
    Descriptor socket = accept_from(listener_);
    if (socket) {
      handshakes_.emplace_back(group, std::move(socket), own);
      if (handshakes_.back().advance() == Handshake::Result::kRejected) handshakes_.pop_back();
    } else if (errno != EMFILE && errno != ENFILE) {
      return;
    } else if (!evict_one()) {
      if (handshakes_.empty()) throw too_few_descriptors(where_, 1);
      return;
    }
  }
}

void Listener::watch(Poller& poller, const GroupKey& group, int own, const OnMember& on_member) {
  drop_idle();
  for (auto handshake = handshakes_.begin(); handshake != handshakes_.end(); ++handshake) {
    poller.add(handshake->socket(), handshake->events(), [this, handshake, &on_member] {
      const Handshake::Result result = handshake->advance();
      if (result == Handshake::Result::kAccepted) on_member(handshake->peer(), handshake->take());
      if (result != Handshake::Result::kPending) handshakes_.erase(handshake);
    });
  }
  if (handshakes_.size() < max_unknown_ || first_evictable() != handshakes_.end())
    poller.add(listener_, POLLIN, [this, &group, own] { accept_pending(group, own); });
}

}  // namespace tessera::gloo_comm
