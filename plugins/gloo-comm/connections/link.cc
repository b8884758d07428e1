#include "gloo-comm/connections/link.h"

namespace tessera::gloo_comm {

std::string lost_connection_text(int world_rank) {
  return "lost the connection to rank " + std::to_string(world_rank) +
         ": its process died or its host cannot be reached";
}

Error lost_in_create(const Member& member, int peer) {
  const int world_rank = member.world_rank(peer);
  return Error(TSR_E_UNAVAILABLE, member.where() + ": create " + lost_connection_text(world_rank), world_rank);
}

Links::Links(const Member& member, CmaReader& cma)
    : member_(member), cma_(cma), links_(static_cast<size_t>(member.num_ranks)) {}

void Links::add(int peer, Descriptor socket) {
  link(peer) = Link{std::move(socket), Stage::kLinked, false, {}, {}};
  if (sent_ >= Stage::kReady) send_stage(peer, Stage::kReady);
  if (announced_) send(peer, *announced_);
}

bool Links::reached_by_all(Stage stage) const {
  for (int peer = 0; peer < member_.num_ranks; ++peer)
    if (peer != member_.rank && link(peer).stage < stage) return false;
  return true;
}

void Links::watch(Poller& poller) {
  for (int peer = 0; peer < member_.num_ranks; ++peer)
    if (has(peer) && !link(peer).has_given_up && link(peer).stage < Stage::kGo)  // the bytes after kGo are gloo's
      poller.add(link(peer).socket, POLLIN, [this, peer] { receive(peer); });
}

// A peer that the job's store has told to end reports the store's error, not one of its own.
void Links::on_fault(int peer) {
  Link& from = link(peer);
  from.frame.text[sizeof from.frame.text - 1] = '\0';
  from.has_given_up = true;
  const std::string reporter =
      from.frame.code == TSR_E_ABORTED ? "" : "rank " + std::to_string(member_.world_rank(peer)) + " reports: ";
  const Error error(from.frame.code, member_.where() + ": create stopped: " + reporter + from.frame.text,
                    from.frame.world_rank);
  if (!received_fault_ || error.code() != TSR_E_DEADLINE) received_fault_.emplace(ReceivedFault{error, from.frame});
  if (error.code() != TSR_E_DEADLINE) throw error;
}

void Links::receive(int peer) {
  Link& from = link(peer);
  const Inbox::Result result = from.inbox.receive(from.socket, &from.frame, sizeof from.frame);
  if (result == Inbox::Result::kPartial) return;
  if (result == Inbox::Result::kClosed) throw lost_in_create(member_, peer);
  if (from.frame.kind == Frame::kReady) {
    cma_.try_peer(peer, from.frame.readable);
    from.stage = Stage::kReady;
  } else if (from.frame.kind == Frame::kGo) {
    if (from.frame.can_read == 1) cma_.note_peer_can_read(peer);
    from.stage = Stage::kGo;
  } else {
    on_fault(peer);
  }
}

// A lost connection is noticed by receive().
void Links::send(int peer, const Frame& frame) {
  if (has(peer) && link(peer).socket) send_all(link(peer).socket, &frame, sizeof frame);
}

void Links::send_stage(int peer, Stage stage) {
  Frame frame{};
  frame.kind = stage == Stage::kReady ? Frame::kReady : Frame::kGo;
  if (stage == Stage::kReady) frame.readable = cma_.readable();
  if (stage == Stage::kGo) frame.can_read = cma_.can_read(peer);
  send(peer, frame);
}

void Links::advance() {
  for (const auto& [before, next] : {std::pair(Stage::kLinked, Stage::kReady), std::pair(Stage::kReady, Stage::kGo)}) {
    if (sent_ != before || !reached_by_all(before)) continue;
    for (int peer = 0; peer < member_.num_ranks; ++peer)
      if (peer != member_.rank) send_stage(peer, next);
    sent_ = next;
  }
}

std::vector<int> Links::awaited() const {
  std::vector<int> peers;
  for (const Stage stage : {Stage::kLinked, Stage::kReady, Stage::kGo}) {
    for (int peer = 0; peer < member_.num_ranks; ++peer)
      if (peer != member_.rank && link(peer).stage < stage && !link(peer).has_given_up) peers.push_back(peer);
    if (!reached_by_all(stage)) break;
  }
  return peers;
}

void Links::announce(const Error& error) noexcept {
  if (announced_ || sent_ == Stage::kGo) return;
  Frame& frame = announced_.emplace();
  if (received_fault_ && std::string_view(received_fault_->error.what()) == error.what()) {
    frame = received_fault_->frame;
  } else {
    frame.kind = Frame::kFault;
    frame.code = error.code();
    frame.world_rank = error.rank();
    std::string_view(error.what()).copy(frame.text, sizeof frame.text - 1);
  }
  for (int peer = 0; peer < member_.num_ranks; ++peer)
    send(peer, frame);
}

std::vector<Descriptor> Links::take() {
  std::vector<Descriptor> sockets;
  for (Link& link : links_)
    sockets.push_back(std::move(link.socket));
  return sockets;
}

}  // namespace tessera::gloo_comm
