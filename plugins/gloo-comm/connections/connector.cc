// Of each pair the higher rank connects and the lower listens, so there is one connection a pair and no tie to break. A
// member of higher rank that dies before it has connected would go unnoticed, so its port is probed by a connection
// that is closed at once.
//
// A refused connection may mean three things: the peer does not listen yet (the connector retries), a firewall (it
// retries until the deadline, where the error names the reason), or a peer that has ended. It counts as the last only
// if the port has been open before, or on loopback, and only after 200 ms of refusals.
#include "gloo-comm/connections/connector.h"

#include <cerrno>
#include <cstring>

#include "gloo-comm/connections/descriptor_limits.h"

namespace tessera::gloo_comm {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRetry(50);
constexpr milliseconds kProbe(300);
// A handshake that takes longer is restarted, unless the peer may already have accepted it.
constexpr milliseconds kMaxHandshake(5000);
// A member whose port has been closed for this long has ended, or has given up and notified the members linked to it.
constexpr milliseconds kMaxRefused(200);

}  // namespace

void Connector::failed(int peer, int reason) {
  Attempt& to = attempt(peer);
  const auto now = Clock::now();
  to.next_try = now + kRetry;
  if (reason != 0) to.reason = reason;
  if (reason != ECONNREFUSED) return to.refused_since.reset();
  if (!to.refused_since) to.refused_since = now;
  // A firewall refuses too, but not where the port has been open before, and not on loopback.
  const bool is_known = to.was_listening || to.address->is_loopback();
  if (!is_known || now - *to.refused_since < kMaxRefused) return;
  const int world_rank = member_.world_rank(peer);
  throw Error(TSR_E_UNAVAILABLE,
              member_.where() + ": create cannot connect to rank " + std::to_string(world_rank) + " at " +
                  to.address->text() + ", which it could before: its process died or has given up",
              world_rank);
}

void Connector::start(const GroupKey& group, int peer) {
  Attempt& to = attempt(peer);
  const bool is_probe = peer > member_.rank;
  to.next_try = Clock::now() + (is_probe ? kProbe : kRetry);
  Descriptor socket = start_connecting(*to.address);
  if (!socket && (errno == EMFILE || errno == ENFILE)) throw too_few_descriptors(member_.where(), 1);
  if (!socket) return failed(peer, errno);
  if (is_probe)
    to.probe = std::move(socket);
  else
    to.handshake.emplace(group, std::move(socket), member_.rank, peer);
}

void Connector::advance(int peer, const OnMember& on_member) {
  Attempt& to = attempt(peer);
  const Handshake::Result result = to.handshake->advance();
  if (result == Handshake::Result::kPending) return;
  if (result == Handshake::Result::kAccepted) on_member(peer, to.handshake->take());
  const int refusal = to.handshake->refusal();
  to.was_listening = to.was_listening || refusal == 0;
  to.handshake.reset();
  if (result == Handshake::Result::kRejected) failed(peer, refusal);
}

void Connector::advance_probe(int peer) {
  Attempt& to = attempt(peer);
  const int refusal = connect_error(to.probe);
  to.probe.reset();
  to.was_listening = to.was_listening || refusal == 0;
  failed(peer, refusal);
  to.next_try = Clock::now() + kProbe;
}

void Connector::watch(Poller& poller, const GroupKey& group, int peer, const OnMember& on_member) {
  Attempt& to = attempt(peer);
  if (!to.address) return;
  const auto now = Clock::now();
  if (to.handshake && !to.handshake->has_sent_proof() && now - to.handshake->since() > kMaxHandshake) {
    to.handshake.reset();
    failed(peer, ETIMEDOUT);
  }
  if (!to.handshake && !to.probe && now >= to.next_try) start(group, peer);
  if (to.handshake)
    poller.add(to.handshake->socket(), to.handshake->events(), [this, peer, &on_member] { advance(peer, on_member); });
  if (to.probe) poller.add(to.probe, POLLOUT, [this, peer] { advance_probe(peer); });
}

std::string Connector::obstacle(int peer) const {
  const Attempt& to = attempts_[static_cast<size_t>(peer)];
  if (to.reason == 0 || !to.address) return "";
  return " (" + to.address->text() + ": " + std::strerror(to.reason) + ")";
}

}  // namespace tessera::gloo_comm
