#pragma once

#include <deque>

#include "gloo-comm/mailbox.h"
#include "gloo-comm/waiter.h"
#include "gloo-comm/watch.h"

namespace tessera::gloo_comm {

/// What the operations of one member of a group share. Members in order of construction; `member` outlives it.
struct Endpoint {
  Endpoint(const Member& group_member, const KeyValue& store, const std::string& prefix,
           const ::gloo::transport::tcp::attr& address)
      : member(group_member),
        communicator(hash_of(prefix)),
        mesh(group_member, store, prefix, address),
        watch(mesh, group_member),
        mailbox(mesh, group_member) {}

  const Member& member;
  const uint64_t communicator;
  const Mesh mesh;
  Watch watch;
  Mailbox mailbox;
  Waiter waiter;
};

/// One collective while it runs. Owns the buffers that gloo works on, and keeps them until it is destroyed: an
/// operation that failed is destroyed after the connections have been closed. Its functions throw Error naming the
/// peer.
class Operation {
 public:
  Operation(Endpoint& endpoint, const Collective& collective) : endpoint_(endpoint), collective_(collective) {}

  const Collective& collective() const { return collective_; }
  int rank() const { return endpoint_.member.rank; }
  int num_ranks() const { return endpoint_.member.num_ranks; }
  /// All other coordinates, from the next one on: so not all ranks turn to the same one first.
  std::vector<int> peers() const;

  /// Memory to send from or receive into, for one peer.
  Buffer& buffer(const void* data, uint64_t num_bytes);
  void send(Buffer& buffer, int peer, uint64_t slot, uint64_t offset, uint64_t num_bytes);
  void receive(Buffer& buffer, int peer, uint64_t slot, uint64_t offset, uint64_t num_bytes);
  /// Waits for `num_messages` of those posted on the buffer.
  void wait_sent(Buffer& buffer, int peer, uint64_t num_messages = 1);
  void wait_received(Buffer& buffer, int peer, uint64_t num_messages = 1);

  /// Sends a header, with `num_bytes` <= kInlineBytes of data in it, which are copied.
  void greet(int peer, Header header, const void* data, uint64_t num_bytes, uint64_t slot = kHeaderSlot);
  /// Waits for the peer's header of this collective and compares it. The `num_bytes` of data that came in it stand
  /// behind the result until finish().
  const std::byte* meet(int peer, Header expected, uint64_t num_bytes);
  /// INVALID_ARGUMENT, naming both sides, when the header of a peer differs from what this rank expects of it.
  void compare(int peer, Header expected, const Header& received) const;

  /// Throws INVALID_ARGUMENT about this collective.
  [[noreturn]] void refuse(std::string_view problem) const;

  /// The peer for which this operation waited in vain; -1 if none.
  int silent_peer() const { return silent_peer_; }

  /// Waits until all headers are sent and gives the received ones' memory back.
  void finish();

 private:
  struct Greeting {
    std::vector<std::byte> data;
    Buffer* buffer;
    int peer;
  };

  void check(Outcome outcome, int peer);
  [[noreturn]] void fail(int peer) const;
  [[noreturn]] void time_out(int peer);

  Endpoint& endpoint_;
  const Collective& collective_;
  std::vector<BufferPtr> buffers_;
  std::deque<Greeting> greetings_;
  std::vector<int> met_;
  int silent_peer_ = -1;
};

}  // namespace tessera::gloo_comm
