// A peer can be at most one collective ahead: it needs this rank's header to finish the current one. So two posted
// receives per peer are enough: gloo sends a message only when its receive is posted, and a header never waits for one.
// Memory: 2 n messages of 4 KiB and a header.
#include "gloo-comm/collectives/posted_headers.h"

namespace tessera::gloo_comm {

static_assert(kMaxMessageBytes % 16 == 0, "the data in a message must be aligned for every dtype");

PostedHeaders::PostedHeaders(const Connections& connections, const Member& member)
    : memory_(new std::byte[kDepth * static_cast<size_t>(member.num_ranks) * kMaxMessageBytes]),
      slots_(kDepth * static_cast<size_t>(member.num_ranks)),
      turns_(static_cast<size_t>(member.num_ranks)) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    const int peer = static_cast<int>(i / kDepth);
    if (peer == member.rank) continue;
    slots_[i].data = memory_.get() + i * kMaxMessageBytes;
    slots_[i].buffer = connections.buffer(slots_[i].data, kMaxMessageBytes);
    try {
      slots_[i].buffer->recv(peer, kHeaderSlot);
    } catch (const std::exception&) {
      throw lost_in_create(member, peer);
    }
  }
}

void PostedHeaders::pop(int peer) {
  slot(peer).buffer->recv(peer, kHeaderSlot);
  size_t& turn = turns_[static_cast<size_t>(peer)];
  turn = (turn + 1) % kDepth;
}

}  // namespace tessera::gloo_comm
