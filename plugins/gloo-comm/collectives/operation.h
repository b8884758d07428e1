// What every collective of gloo-comm is made of: headers, messages, reads of a peer's memory, waits.
#pragma once

#include <deque>

#include "gloo-comm/collectives/posted_headers.h"
#include "gloo-comm/failure/cancellable_wait.h"
#include "gloo-comm/failure/failure_detector.h"

namespace tessera::gloo_comm {

/// What the operations of one member of a group share, in order of construction; `member` outlives it.
struct Endpoint {
  Endpoint(const Member& group_member, const KeyValue& store, const std::string& prefix, const ConnectionSetup& setup)
      : member(group_member),
        cma(setup.uses_cma, group_member.num_ranks),
        connections(group_member, store, prefix, setup, cma),
        failure_detector(connections, group_member),
        posted_headers(connections, group_member) {}

  const Member& member;
  CmaReader cma;
  const Connections connections;
  FailureDetector failure_detector;
  PostedHeaders posted_headers;
  CancellableWait wait;
};

/// One collective while it runs: posts messages, exchanges headers, waits. Owns the buffers that gloo works on until it
/// is destroyed; an operation that failed is destroyed after the connections have been closed. Its functions throw
/// Error naming the peer.
class Operation {
 public:
  Operation(Endpoint& endpoint, const Collective& collective) : endpoint_(endpoint), collective_(collective) {}

  const Collective& collective() const { return collective_; }
  int rank() const { return endpoint_.member.rank; }
  int num_ranks() const { return endpoint_.member.num_ranks; }
  /// All other coordinates, starting with the next one, so that not all ranks start with the same peer.
  std::vector<int> peers() const;

  /// Memory to send from or receive into, for one peer.
  Buffer& buffer(const void* data, uint64_t num_bytes);
  void send(Buffer& buffer, int peer, uint64_t slot, uint64_t offset, uint64_t num_bytes);
  void receive(Buffer& buffer, int peer, uint64_t slot, uint64_t offset, uint64_t num_bytes);
  /// Waits for `num_messages` of those posted on the buffer.
  void wait_sent(Buffer& buffer, int peer, uint64_t num_messages = 1);
  void wait_received(Buffer& buffer, int peer, uint64_t num_messages = 1);

  /// Sends a header, with `num_bytes` <= kInlineBytes of data in it, which are copied.
  void send_header(int peer, Header header, const void* data, uint64_t num_bytes, uint64_t slot = kHeaderSlot);
  /// Waits for the peer's header of this collective and compares it. The result points to the `num_bytes` of data that
  /// came with it, valid until finish().
  const std::byte* receive_header(int peer, Header expected, uint64_t num_bytes);
  /// The header received from the peer.
  const Header& received_header(int peer) const { return headers_.at(static_cast<size_t>(peer)); }

  /// Whether this rank and the peer may read one another's memory, and then signal what they have read.
  bool signals(int peer) const { return endpoint_.cma.reads(peer); }
  /// Before the headers: peers will be told that these bytes cannot be read, if that is so.
  void offer(const void* data, uint64_t num_bytes);
  /// Whether this rank and the peer read what their headers name, instead of sending it. Known when the header is here.
  bool reads(int peer) const { return signals(peer) && is_readable_ && received_header(peer).is_readable != 0; }
  /// Copies from an address in the peer's header. If the peer's process has ended, throws the reason.
  void read(int peer, uint64_t address, void* to, uint64_t num_bytes);
  /// One byte to and from the peer, which says that something has been read.
  void expect_signal(int peer, uint64_t phase);  ///< posted before send_header, so that the byte needs no round trip
  void signal(int peer, uint64_t phase);
  void wait_signal(int peer, uint64_t phase);
  /// INVALID_ARGUMENT, naming both sides, when a peer's header differs from the expected one.
  void compare(int peer, const Header& expected, const Header& received) const;

  /// Throws INVALID_ARGUMENT about this collective.
  [[noreturn]] void refuse(std::string_view problem) const;

  /// Waits until all headers and signals are sent, and reposts the receives of those that came.
  void finish();

 private:
  struct HeaderMessage {
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

  bool is_readable_ = true;  // all that was offered
  int64_t num_sending_ = 0;  // messages that nothing has waited for yet
  std::deque<HeaderMessage> sent_headers_;
  std::deque<Signal> signals_in_, signals_out_;
  std::vector<Header> headers_;  // by peer
  std::vector<int> received_from_;
};

}  // namespace tessera::gloo_comm
