// The posted receives for headers of collectives.
#pragma once

#include "gloo-comm/connections/connections.h"

namespace tessera::gloo_comm {

/// Receives the headers of collectives, with short data in them. Two receives per peer are always posted, so a header
/// takes one trip over the network, not a round trip; a peer is never further ahead than that.
class PostedHeaders {
 public:
  PostedHeaders(const Connections& connections, const Member& member);

  /// The buffer that receives the next message of a peer, to wait on, and the message once it has come.
  Buffer& front(int peer) const { return *slot(peer).buffer; }
  const std::byte* message(int peer) const { return slot(peer).data; }
  /// Releases the next message of a peer and posts its memory again.
  void pop(int peer);

 private:
  static constexpr size_t kDepth = 2;
  struct Slot {
    std::byte* data = nullptr;
    BufferPtr buffer;
  };
  const Slot& slot(int peer) const {
    return slots_[kDepth * static_cast<size_t>(peer) + turns_[static_cast<size_t>(peer)]];
  }

  std::unique_ptr<std::byte[]> memory_;
  std::vector<Slot> slots_;    // [num_ranks, kDepth]
  std::vector<size_t> turns_;  // [num_ranks]
};

}  // namespace tessera::gloo_comm
