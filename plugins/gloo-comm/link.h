#pragma once

#include <optional>
#include <vector>

#include "gloo-comm/direct.h"
#include "gloo-comm/door.h"
#include "tessera/collective.hpp"

namespace tessera::gloo_comm {

/// What members say to one another on their connection between the greeting and gloo's first byte.
struct Frame {
  enum Kind : uint32_t {
    kReady = 1,  // this member is connected to all others
    kGo = 2,     // and they to all others: the last before gloo's
    kFault = 3,  // instead of either: this member gives up
  };
  uint32_t kind;
  int32_t code, world_rank;  // of kFault; whom it is about
  uint32_t can_read;         // of kGo: what the peer told with kReady can be read
  Readable readable;         // of kReady
  char text[440];            // of kFault, zero-terminated
};

/// "lost the connection to rank 3: its process died or its host cannot be reached"
std::string lost_connection_text(int world_rank);
/// UNAVAILABLE about a peer that was lost while the communicator was made.
Error lost_in_create(const Member& member, int peer);

/// The connections of one member while the group comes together: nobody goes on before all have met all, so that a
/// member that stops or dies until then is known to everybody, with the reason.
class Links {
 public:
  Links(const Member& member, DirectReader& direct);

  /// The connection to a peer; a later one takes the place of an earlier, of which the peer knows that it is broken.
  void add(int peer, Descriptor socket);
  bool has(int peer) const { return link(peer).stage != Stage::kNone; }

  /// Adds what is to be heard to `poller`. Its actions throw the error of a peer that gave up, or UNAVAILABLE about a
  /// peer that died.
  void watch(Poller& poller);
  /// Tells the peers what is now true.
  void advance();
  bool is_done() const { return sent_ == Stage::kGo && reached_by_all(Stage::kGo); }

  /// The peers for which this member waits, without those that have said that they wait themselves.
  std::vector<int> awaited() const;
  /// A peer has said that its time is up.
  bool is_time_up() const { return heard_.has_value(); }
  /// What that peer said.
  const Error& timeout() const { return heard_->error; }

  /// Tells every peer that can still hear it; what a peer told is passed on as that peer said it. Only the first call
  /// counts.
  void announce(const Error& error) noexcept;

  /// By peer; its own place is empty. The links are left without.
  std::vector<Descriptor> take();

 private:
  enum class Stage { kNone, kLinked, kReady, kGo };
  struct Link {
    Descriptor socket;
    Stage stage = Stage::kNone;
    bool gave_up = false;
    Inbox inbox;
    Frame frame{};
  };

  struct Heard {
    Error error;
    Frame frame;
  };

  Link& link(int peer) { return links_[static_cast<size_t>(peer)]; }
  const Link& link(int peer) const { return links_[static_cast<size_t>(peer)]; }
  bool reached_by_all(Stage stage) const;
  void hear(int peer);
  void take_fault(int peer);
  void tell(int peer, Stage stage);
  void say(int peer, const Frame& frame);

  const Member& member_;
  DirectReader& direct_;
  std::vector<Link> links_;  // by peer
  Stage sent_ = Stage::kLinked;
  std::optional<Frame> announced_;
  std::optional<Heard> heard_;  // the first time-out, or the fault that ended this member
};

}  // namespace tessera::gloo_comm
