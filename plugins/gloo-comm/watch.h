#pragma once

#include <mutex>
#include <optional>

#include "gloo-comm/mesh.h"

namespace tessera::gloo_comm {

/// Why a communicator stopped working.
struct Fault {
  tsr_status code;
  int world_rank;  // whom it is about, -1 if nobody
  std::string text;
};

/// Knows which peers are gone and why, and tells them why this rank goes. [any-thread]
class Watch {
 public:
  Watch(const Mesh& mesh, const Member& member);

  /// What ended the communicator at some peer: the peer's own words, or that its connection was lost without any. A
  /// peer that left in good order, after its last operation, is no fault. Does not block.
  std::optional<Fault> look();

  /// The fault behind a connection that was just lost: look(), after a short wait if it is not visible yet.
  Fault explain(int peer);

  /// Tells every peer why this rank stops; only the first call counts. Does not block.
  void announce(const Fault& fault) noexcept;

  /// Receives the announcement of a peer; to wait on, and then to read. [the operation's thread]
  Buffer& notice(int peer) { return *peer_of(peer).notice_in; }
  Fault read_notice(int peer);

  /// Waits until every peer has read all that this rank sent, but for the one whose world rank is `silent`: it is known
  /// not to answer. After this, connections may be closed. Only the first call counts, and after its time-out no
  /// connection is left.
  void settle(int64_t timeout_ms, int silent = -1) noexcept;

 private:
  struct Peer {
    int rank = 0;
    bool is_gone = false, has_left = false;  // left: in good order, or after its own last words
    char nothing = 0, farewell_sent = 0, farewell_received = 0;
    Notice notice{};
    BufferPtr tripwire, notice_in, farewell_out, farewell_in;
  };

  bool is_cut(Peer& peer) const;
  std::optional<Fault> last_words(Peer& peer);
  std::optional<Fault> look_locked();
  Peer& peer_of(int rank) { return peers_[static_cast<size_t>(rank > member_.rank ? rank - 1 : rank)]; }
  Fault fault_of(Peer& peer);
  bool has_left(int peer);
  void send_notice(Peer& peer) noexcept;

  const Mesh& mesh_;
  const Member& member_;
  std::mutex mutex_;
  std::vector<Peer> peers_;  // its addresses are posted: never resized
  std::optional<Fault> fault_;
  std::optional<Notice> heard_;  // what the fault is from, if a peer told it: passed on as it is
  bool has_announced_ = false, has_settled_ = false;
  Notice notice_{};
  std::vector<BufferPtr> notices_out_;
};

}  // namespace tessera::gloo_comm
