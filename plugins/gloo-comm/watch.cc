#include "gloo-comm/watch.h"

#include <chrono>
#include <thread>

namespace tessera::gloo_comm {
namespace {

using std::chrono::milliseconds;

// For a wait whose operation is known to be over.
constexpr milliseconds kOver{1};

Fault lost(int world_rank) {
  return {TSR_E_UNAVAILABLE, world_rank, lost_connection_text(world_rank)};
}

}  // namespace

Watch::Watch(const Mesh& mesh, const Member& member)
    : mesh_(mesh), member_(member), peers_(static_cast<size_t>(member.num_ranks - 1)) {
  for (size_t i = 0; i < peers_.size(); ++i) {
    Peer& peer = peers_[i];
    peer.rank = static_cast<int>(i) + (static_cast<int>(i) >= member.rank ? 1 : 0);
    peer.tripwire = mesh.buffer(&peer.nothing, 1);
    peer.notice_in = mesh.buffer(&peer.notice, sizeof peer.notice);
    peer.farewell_out = mesh.buffer(&peer.farewell_sent, 1);
    peer.farewell_in = mesh.buffer(&peer.farewell_received, 1);
    try {
      peer.tripwire->recv(peer.rank, kTripwireSlot);
      peer.notice_in->recv(peer.rank, kNoticeSlot);
      peer.farewell_out->send(peer.rank, kFarewellSlot);
    } catch (const std::exception&) {
      throw lost_in_create(member, peer.rank);
    }
  }
}

// gloo has no test for a lost connection: a wait that is aborted beforehand throws if it is lost, and returns if not.
bool Watch::is_cut(Peer& peer) const {
  try {
    peer.tripwire->abortWaitRecv();
    peer.tripwire->waitRecv(nullptr, kOver);
    return false;
  } catch (const std::exception&) {
    return true;
  }
}

Fault Watch::fault_of(Peer& peer) {
  peer.notice.text[sizeof peer.notice.text - 1] = '\0';
  if (!heard_) heard_ = peer.notice;
  return {peer.notice.code, peer.notice.world_rank,
          "stopped: rank " + std::to_string(member_.world_rank(peer.rank)) + " reports: " + peer.notice.text};
}

Fault Watch::read_notice(int peer) {
  const std::lock_guard lock(mutex_);
  return fault_of(peer_of(peer));
}

// Of a peer whose connection is lost: its operations have completed or failed.
std::optional<Fault> Watch::last_words(Peer& peer) {
  try {
    if (peer.notice_in->waitRecv(nullptr, kOver)) return fault_of(peer);
  } catch (const std::exception&) {
  }
  try {
    peer.has_left = peer.farewell_out->waitSend(nullptr, kOver);
    if (peer.has_left) return std::nullopt;
  } catch (const std::exception&) {
  }
  return lost(member_.world_rank(peer.rank));
}

std::optional<Fault> Watch::look_locked() {
  for (Peer& peer : peers_) {
    if (peer.is_gone || !is_cut(peer)) continue;
    peer.is_gone = true;
    auto fault = last_words(peer);
    if (fault && !fault_) fault_ = std::move(fault);
  }
  return fault_;
}

std::optional<Fault> Watch::look() {
  const std::lock_guard lock(mutex_);
  return look_locked();
}

bool Watch::has_left(int peer) {
  const std::lock_guard lock(mutex_);
  return peer_of(peer).has_left;
}

Fault Watch::explain(int peer) {
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (auto fault = look()) return *fault;
    std::this_thread::sleep_for(milliseconds(1));
  }
  const int world_rank = member_.world_rank(peer);
  if (!has_left(peer)) return lost(world_rank);
  return {TSR_E_UNAVAILABLE, world_rank,
          "failed: rank " + std::to_string(world_rank) + " has already destroyed this communicator"};
}

void Watch::send_notice(Peer& peer) noexcept {
  try {
    notices_out_.push_back(mesh_.buffer(&notice_, sizeof notice_));
    notices_out_.back()->send(peer.rank, kNoticeSlot);
  } catch (const std::exception&) {
    peer.is_gone = true;
  }
}

void Watch::announce(const Fault& fault) noexcept {
  const std::lock_guard lock(mutex_);
  if (std::exchange(has_announced_, true)) return;
  look_locked();
  if (heard_) {
    notice_ = *heard_;
  } else {
    notice_.code = fault.code;
    notice_.world_rank = fault.world_rank;
    fault.text.copy(notice_.text, sizeof notice_.text - 1);
  }
  for (Peer& peer : peers_)
    if (!peer.is_gone) send_notice(peer);
}

void Watch::settle(int64_t timeout_ms, int silent) noexcept {
  const std::lock_guard lock(mutex_);
  if (std::exchange(has_settled_, true)) return;
  look_locked();
  const Deadline deadline(timeout_ms);
  for (Peer& peer : peers_) {
    try {
      if (peer.is_gone || member_.world_rank(peer.rank) == silent) continue;
      peer.farewell_in->recv(peer.rank, kFarewellSlot);
    } catch (const std::exception&) {
      peer.is_gone = true;
    }
  }
  for (Peer& peer : peers_) {
    try {
      if (peer.is_gone || member_.world_rank(peer.rank) == silent) continue;
      peer.farewell_in->waitRecv(nullptr, milliseconds(deadline.left_ms()));
    } catch (const std::exception&) {
      // Gone, or it does not answer in time; then gloo has dropped all connections, and the other waits end at once.
    }
  }
}

}  // namespace tessera::gloo_comm
