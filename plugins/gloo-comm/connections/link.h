// Connections from the handshake to gloo's first byte, with a barrier over all members. If one of them fails before it,
// all learn the reason.
#pragma once

#include <optional>
#include <vector>

#include "gloo-comm/connections/cma.h"
#include "gloo-comm/connections/listener.h"
#include "tessera/collective.hpp"

namespace tessera::gloo_comm {

/// The messages on a connection between the handshake and gloo's first byte.
struct Frame {
  enum Kind : uint32_t {
    kReady = 1,  // this member is connected to all others
    kGo = 2,     // and so are all others: the last frame before gloo's bytes
    kFault = 3,  // instead of either: this member has failed
  };
  uint32_t kind;
  int32_t code, world_rank;  // of kFault; world_rank: the rank it is about
  uint32_t can_read;         // of kGo: the memory named in the peer's kReady can be read
  CmaProbe readable;         // of kReady
  char text[440];            // of kFault, zero-terminated
};

/// "lost the connection to rank 3: its process died or its host cannot be reached"
std::string lost_connection_text(int world_rank);
/// UNAVAILABLE about a peer that was lost while the communicator was made.
Error lost_in_create(const Member& member, int peer);

/// The connections of one member during the bootstrap, and a two-phase barrier over them: no member continues before
/// every pair is linked, so until then all members learn of one that fails or dies, with the reason.
class Links {
 public:
  Links(const Member& member, CmaReader& cma);

  /// The connection to a peer; a later one replaces an earlier one, which the peer has found to be broken.
  void add(int peer, Descriptor socket);
  bool has(int peer) const { return link(peer).stage != Stage::kNone; }

  /// Adds the links with frames to come to `poller`. Its actions throw the error of a peer that has given up, or
  /// UNAVAILABLE about a peer that died.
  void watch(Poller& poller);
  /// Sends the peers the stage that this member has reached.
  void advance();
  bool is_done() const { return sent_ == Stage::kGo && reached_by_all(Stage::kGo); }

  /// The peers that this member waits for, without those that have timed out waiting for others.
  std::vector<int> awaited() const;
  /// A peer has timed out.
  bool is_time_up() const { return received_fault_.has_value(); }
  /// The error of that peer.
  const Error& timeout() const { return received_fault_->error; }

  /// Sends the error to every linked peer; an error that came from a peer is forwarded unchanged. Only the first call
  /// counts.
  void announce(const Error& error) noexcept;

  /// The connections by peer, the own entry empty; moves them out of the links.
  std::vector<Descriptor> take();

 private:
  enum class Stage { kNone, kLinked, kReady, kGo };
  struct Link {
    Descriptor socket;
    Stage stage = Stage::kNone;
    bool has_given_up = false;
    Inbox inbox;
    Frame frame{};
  };

  struct ReceivedFault {
    Error error;
    Frame frame;
  };

  Link& link(int peer) { return links_[static_cast<size_t>(peer)]; }
  const Link& link(int peer) const { return links_[static_cast<size_t>(peer)]; }
  bool reached_by_all(Stage stage) const;
  void receive(int peer);
  void on_fault(int peer);
  void send_stage(int peer, Stage stage);
  void send(int peer, const Frame& frame);

  const Member& member_;
  CmaReader& cma_;
  std::vector<Link> links_;  // by peer
  Stage sent_ = Stage::kLinked;
  std::optional<Frame> announced_;
  std::optional<ReceivedFault> received_fault_;  // the first time-out, or the fault that ended this member
};

}  // namespace tessera::gloo_comm
