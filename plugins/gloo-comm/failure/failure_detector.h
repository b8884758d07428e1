// Finds out that a peer has failed, has left or was lost, and tells the peers of this rank's own failure.
#pragma once

#include <mutex>
#include <optional>

#include "gloo-comm/connections/connections.h"

namespace tessera::gloo_comm {

/// Why a communicator stopped working.
struct Fault {
  tsr_status code;
  int world_rank;  // the rank it is about, -1 if none
  std::string text;
};

/// Detects which peers are gone and why, and notifies them why this rank stops. [any-thread]
class FailureDetector {
 public:
  FailureDetector(const Connections& connections, const Member& member);

  /// The fault that ended the communicator at some peer: its error notice, or that its connection was lost without one.
  /// A peer that left with a goodbye, after its last operation, is not a fault. Does not block.
  std::optional<Fault> poll();

  /// The reason for a connection that was just lost: poll(), after a short wait if it is not visible yet.
  Fault cause_of_loss(int peer);

  /// Sends every peer an error notice with the reason why this rank stops; only the first call counts. Does not block.
  void announce(const Fault& fault) noexcept;

  /// The buffer that receives a peer's error notice, to wait on; and the notice, once it has arrived. [the operation's
  /// thread]
  Buffer& notice(int peer) { return *peer_of(peer).notice_in; }
  Fault read_notice(int peer);

  /// Waits until every peer has read all that this rank sent, except the one with world rank `silent`, which is known
  /// not to answer. After this, connections may be closed. Only the first call counts, and after its time-out no
  /// connection is left.
  void drain(int64_t timeout_ms, int silent = -1) noexcept;

 private:
  struct Peer {
    int rank = 0;
    bool is_gone = false, has_left = false;  // has_left: with a goodbye
    char probe_byte = 0, goodbye_sent = 0, goodbye_received = 0;
    Notice notice{};
    BufferPtr liveness_probe, notice_in, goodbye_out, goodbye_in;
  };

  bool is_disconnected(Peer& peer) const;
  std::optional<Fault> reason_for_leaving(Peer& peer);
  std::optional<Fault> poll_locked();
  Peer& peer_of(int rank) { return peers_[static_cast<size_t>(rank > member_.rank ? rank - 1 : rank)]; }
  Fault fault_of(Peer& peer);
  bool has_left(int peer);
  void send_notice(Peer& peer) noexcept;

  const Connections& connections_;
  const Member& member_;
  std::mutex mutex_;
  std::vector<Peer> peers_;  // never resized: gloo holds addresses of its elements
  std::optional<Fault> fault_;
  std::optional<Notice> received_notice_;  // the notice that the fault came from, if any: forwarded unchanged
  bool has_announced_ = false, has_drained_ = false;
  Notice notice_{};
  std::vector<BufferPtr> notices_out_;
};

}  // namespace tessera::gloo_comm
