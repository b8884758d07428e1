#pragma once

#include <deque>

#include "gloo-comm/mailbox.h"
#include "gloo-comm/waiter.h"
#include "gloo-comm/watch.h"

namespace tessera::gloo_comm {

/// What the operations of one member of a group share. Members in order of construction; `member` outlives it.
struct Endpoint {
  Endpoint(const Member& group_member, const KeyValue& store, const std::string& prefix, const MeshSetup& setup)
      : member(group_member),
        direct(setup.reads_directly, group_member.num_ranks),
        mesh(group_member, store, prefix, setup, direct),
        watch(mesh, group_member),
        mailbox(mesh, group_member) {}

  const Member& member;
  DirectReader direct;
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
  /// The header with which the peer was met.
  const Header& met_header(int peer) const { return headers_.at(static_cast<size_t>(peer)); }

  /// Whether this rank and the peer read one another's memory instead of sending.
  bool reads(int peer) const { return endpoint_.direct.reads(peer); }
  /// Copies what stands at an address of the peer's header. Throws what befell the peer.
  void read(int peer, uint64_t address, void* to, uint64_t num_bytes);
  /// A byte to and from the peer: something has been read.
  void expect_signal(int peer, uint64_t phase);  ///< before greet, so that the byte needs no round trip
  void signal(int peer, uint64_t phase);
  void wait_signal(int peer, uint64_t phase);
  /// INVALID_ARGUMENT, naming both sides, when the header of a peer differs from what this rank expects of it.
  void compare(int peer, const Header& expected, const Header& received) const;

  /// Throws INVALID_ARGUMENT about this collective.
  [[noreturn]] void refuse(std::string_view problem) const;

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
  [[noreturn]] void fail_aborted() const;
  [[noreturn]] void time_out(int peer);

  Endpoint& endpoint_;
  const Collective& collective_;
  std::vector<BufferPtr> buffers_;
  struct Signal {
    int peer;
    uint64_t phase;
    std::byte byte{};
    Buffer* buffer = nullptr;
  };

  std::deque<Greeting> greetings_;
  std::deque<Signal> signals_in_, signals_out_;
  std::vector<Header> headers_;  // by peer
  std::vector<int> met_;
};

}  // namespace tessera::gloo_comm
