#include "gloo-comm/failure/failure_detector.h"

#include <chrono>
#include <thread>

namespace tessera::gloo_comm {
namespace {

using std::chrono::milliseconds;

// Time-out of a wait whose operation is known to be over.
constexpr milliseconds kOver{1};

Fault lost(int world_rank) {
  return {TSR_E_UNAVAILABLE, world_rank, lost_connection_text(world_rank)};
}

}  // namespace

FailureDetector::FailureDetector(const Connections& connections, const Member& member)
    : connections_(connections), member_(member), peers_(static_cast<size_t>(member.num_ranks - 1)) {
  for (size_t i = 0; i < peers_.size(); ++i) {
    Peer& peer = peers_[i];
    peer.rank = static_cast<int>(i) + (static_cast<int>(i) >= member.rank ? 1 : 0);
    peer.liveness_probe = connections.buffer(&peer.probe_byte, 1);
    peer.notice_in = connections.buffer(&peer.notice, sizeof peer.notice);
    peer.goodbye_out = connections.buffer(&peer.goodbye_sent, 1);
    peer.goodbye_in = connections.buffer(&peer.goodbye_received, 1);
    try {
      peer.liveness_probe->recv(peer.rank, kLivenessProbeSlot);
      peer.notice_in->recv(peer.rank, kNoticeSlot);
      peer.goodbye_out->send(peer.rank, kGoodbyeSlot);
    } catch (const std::exception&) {
      throw lost_in_create(member, peer.rank);
    }
  }
}

// gloo has no test for a lost connection: a wait that is aborted beforehand throws if the connection is lost, else
// returns.
bool FailureDetector::is_disconnected(Peer& peer) const {
  try {
    peer.liveness_probe->abortWaitRecv();
    peer.liveness_probe->waitRecv(nullptr, kOver);
    return false;
  } catch (const std::exception&) {
    return true;
  }
}

Fault FailureDetector::fault_of(Peer& peer) {
  peer.notice.text[sizeof peer.notice.text - 1] = '\0';
  if (!received_notice_) received_notice_ = peer.notice;
  return {peer.notice.code, peer.notice.world_rank,
          "stopped: rank " + std::to_string(member_.world_rank(peer.rank)) + " reports: " + peer.notice.text};
}

Fault FailureDetector::read_notice(int peer) {
  const std::lock_guard lock(mutex_);
  return fault_of(peer_of(peer));
}

// Called when the connection is lost: operations with the peer have completed or failed.
std::optional<Fault> FailureDetector::reason_for_leaving(Peer& peer) {
  try {
    if (peer.notice_in->waitRecv(nullptr, kOver)) return fault_of(peer);
  } catch (const std::exception&) {
  }
  try {
    peer.has_left = peer.goodbye_out->waitSend(nullptr, kOver);
    if (peer.has_left) return std::nullopt;
  } catch (const std::exception&) {
  }
  return lost(member_.world_rank(peer.rank));
}

std::optional<Fault> FailureDetector::poll_locked() {
  for (Peer& peer : peers_) {
    if (peer.is_gone || !is_disconnected(peer)) continue;
    peer.is_gone = true;
    auto fault = reason_for_leaving(peer);
    if (fault && !fault_) fault_ = std::move(fault);
  }
  return fault_;
}

std::optional<Fault> FailureDetector::poll() {
  const std::lock_guard lock(mutex_);
  return poll_locked();
}

bool FailureDetector::has_left(int peer) {
  const std::lock_guard lock(mutex_);
  return peer_of(peer).has_left;
}

Fault FailureDetector::cause_of_loss(int peer) {
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (auto fault = poll()) return *fault;
    std::this_thread::sleep_for(milliseconds(1));
  }
  const int world_rank = member_.world_rank(peer);
  if (!has_left(peer)) return lost(world_rank);
  return {TSR_E_UNAVAILABLE, world_rank,
          "failed: rank " + std::to_string(world_rank) + " has already destroyed this communicator"};
}

void FailureDetector::send_notice(Peer& peer) noexcept {
  try {
    notices_out_.push_back(connections_.buffer(&notice_, sizeof notice_));
    notices_out_.back()->send(peer.rank, kNoticeSlot);
  } catch (const std::exception&) {
    peer.is_gone = true;
  }
}

void FailureDetector::announce(const Fault& fault) noexcept {
  const std::lock_guard lock(mutex_);
  if (std::exchange(has_announced_, true)) return;
  poll_locked();
  if (received_notice_) {
    notice_ = *received_notice_;
  } else {
    notice_.code = fault.code;
    notice_.world_rank = fault.world_rank;
    fault.text.copy(notice_.text, sizeof notice_.text - 1);
  }
  for (Peer& peer : peers_)
    if (!peer.is_gone) send_notice(peer);
}

void FailureDetector::drain(int64_t timeout_ms, int silent) noexcept {
  const std::lock_guard lock(mutex_);
  if (std::exchange(has_drained_, true)) return;
  poll_locked();
  const Deadline deadline(timeout_ms);
  for (Peer& peer : peers_) {
    try {
      if (peer.is_gone || member_.world_rank(peer.rank) == silent) continue;
      peer.goodbye_in->recv(peer.rank, kGoodbyeSlot);
    } catch (const std::exception&) {
      peer.is_gone = true;
    }
  }
  for (Peer& peer : peers_) {
    try {
      if (peer.is_gone || member_.world_rank(peer.rank) == silent) continue;
      peer.goodbye_in->waitRecv(nullptr, milliseconds(deadline.left_ms()));
    } catch (const std::exception&) {
      // The peer is gone or does not answer in time; then gloo has dropped all connections, and the other waits end at
      // once.
    }
  }
}

}  // namespace tessera::gloo_comm
