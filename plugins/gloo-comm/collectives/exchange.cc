// Bytes sent with n ranks: ALL_GATHER: each rank sends its slice n - 1 times. BROADCAST: the root sends everything n -
// 1 times. ALL_TO_ALL: each rank sends all but its own slice once. Short slices travel inside the headers: no second
// message, no round trip.
//
// Order of a collective: post the receives of signals, send all headers, receive all headers (so ranks agree before any
// data moves), copy the own slice, start all flows, wait for all flows. So a rank never waits for one peer while
// another could proceed.
#include "gloo-comm/collectives/exchange.h"

namespace tessera::gloo_comm {
namespace {

/// What goes to one peer and what comes from it.
struct Flow {
  int peer;
  const std::byte* out;
  uint64_t num_bytes_out;
  std::byte* in;
  uint64_t num_bytes_in;
  const std::byte* message = nullptr;  // the data that came with the peer's header
  Buffer* sent = nullptr;
  Buffer* received = nullptr;
};

bool is_inline(uint64_t num_bytes) {
  return num_bytes <= kInlineBytes;
}
uint64_t inline_bytes(uint64_t num_bytes) {
  return is_inline(num_bytes) ? num_bytes : 0;
}

struct Slice {
  uint64_t offset, num_bytes;
};

Slice slice_of(const std::vector<uint64_t>& offsets, int rank, uint64_t element_bytes) {
  const size_t i = static_cast<size_t>(rank);
  return {offsets[i] * element_bytes, (offsets[i + 1] - offsets[i]) * element_bytes};
}

/// The peer may be this rank itself: that flow is a copy.
Flow flow_with(const Collective& c, int rank, int peer) {
  const uint64_t element_bytes = c.element_bytes();
  switch (c.kind) {
    case TSR_COLL_ALL_GATHER: {
      const Slice in = slice_of(c.offsets, peer, element_bytes);
      return {peer, c.send, c.slice_elements(rank) * element_bytes, c.recv + in.offset, in.num_bytes};
    }
    case TSR_COLL_ALL_TO_ALL: {
      const Slice out = slice_of(c.offsets, peer, element_bytes);
      const Slice in = slice_of(c.recv_offsets, peer, element_bytes);
      return {peer, c.send + out.offset, out.num_bytes, c.recv + in.offset, in.num_bytes};
    }
    case TSR_COLL_BROADCAST: {
      const uint64_t num_bytes = c.num_elements * element_bytes;
      return {peer, c.send, rank == c.peer ? num_bytes : 0, c.recv, peer == c.peer ? num_bytes : 0};
    }
    default:  // BARRIER
      return {peer, nullptr, 0, nullptr, 0};
  }
}

/// Between ranks that read each other's memory nothing is sent. Those that may read signal when they have, or need not.
void start(Operation& operation, Flow& flow) {
  const bool reads = operation.reads(flow.peer);
  const uint64_t slot = data_slot(operation.collective().ticket, 0);
  if (is_inline(flow.num_bytes_in)) {
    if (flow.num_bytes_in > 0) std::memcpy(flow.in, flow.message, flow.num_bytes_in);
  } else if (reads) {
    operation.read(flow.peer, operation.received_header(flow.peer).address, flow.in, flow.num_bytes_in);
  } else {
    flow.received = &operation.buffer(flow.in, flow.num_bytes_in);
    operation.receive(*flow.received, flow.peer, slot, 0, flow.num_bytes_in);
  }
  if (!is_inline(flow.num_bytes_in) && operation.signals(flow.peer)) operation.signal(flow.peer, kReadPhase);
  if (!is_inline(flow.num_bytes_out) && !reads) {
    flow.sent = &operation.buffer(flow.out, flow.num_bytes_out);
    operation.send(*flow.sent, flow.peer, slot, 0, flow.num_bytes_out);
  }
}

/// A message of SEND, RECV or EXCHANGE in flight. Both sides send a header, so both report a mismatch.
struct Message {
  const Transfer* transfer;
  std::unique_ptr<std::byte[]> memory;  // receives the peer's header and the data with it
  Buffer* header;
  Buffer* data;  // NULL when short
};

Message post(Operation& operation, const Transfer& t) {
  const uint64_t num_bytes = t.num_bytes();
  const uint64_t slot = message_data_slot(t.index, t.dtype, num_bytes);
  Message message{&t, std::make_unique<std::byte[]>(kMaxMessageBytes), nullptr, nullptr};
  message.header = &operation.buffer(message.memory.get(), kMaxMessageBytes);
  operation.receive(*message.header, t.peer, message_header_slot(t.index, !t.is_receive), 0, kMaxMessageBytes);
  operation.send_header(t.peer, make_header(operation.collective(), t), t.data,
                        t.is_receive ? 0 : inline_bytes(num_bytes), message_header_slot(t.index, t.is_receive));
  if (is_inline(num_bytes)) return message;
  message.data = &operation.buffer(t.data, num_bytes);
  if (t.is_receive)
    operation.receive(*message.data, t.peer, slot, 0, num_bytes);
  else
    operation.send(*message.data, t.peer, slot, 0, num_bytes);
  return message;
}

void accept(Operation& operation, const Message& message) {
  const Transfer& t = *message.transfer;
  operation.wait_received(*message.header, t.peer);
  Header received;
  std::memcpy(&received, message.memory.get(), sizeof received);
  Header expected = make_header(operation.collective(), t);
  expected.num_inline_bytes = t.is_receive ? inline_bytes(t.num_bytes()) : 0;
  operation.compare(t.peer, expected, received);
  if (expected.num_inline_bytes > 0)
    std::memcpy(t.data, message.memory.get() + sizeof received, expected.num_inline_bytes);
}

}  // namespace

void exchange_slices(Operation& operation) {
  const Collective& c = operation.collective();
  std::vector<Flow> flows;
  for (const int peer : operation.peers())
    flows.push_back(flow_with(c, operation.rank(), peer));
  for (const Flow& flow : flows)
    if (operation.signals(flow.peer) && !is_inline(flow.num_bytes_out)) operation.offer(flow.out, flow.num_bytes_out);
  for (const Flow& flow : flows) {
    const bool may_be_read = operation.signals(flow.peer) && !is_inline(flow.num_bytes_out);
    if (may_be_read) operation.expect_signal(flow.peer, kReadPhase);
    Header header = make_header(c, flow.peer, true);
    header.address = reinterpret_cast<uint64_t>(flow.out);
    operation.send_header(flow.peer, header, flow.out, inline_bytes(flow.num_bytes_out));
  }
  for (Flow& flow : flows)
    flow.message =
        operation.receive_header(flow.peer, make_header(c, flow.peer, false), inline_bytes(flow.num_bytes_in));
  const Flow own = flow_with(c, operation.rank(), operation.rank());
  if (own.num_bytes_out > 0 && own.in != own.out) std::memcpy(own.in, own.out, own.num_bytes_out);
  for (Flow& flow : flows)
    start(operation, flow);
  for (const Flow& flow : flows) {
    if (flow.received) operation.wait_received(*flow.received, flow.peer);
    if (flow.sent) operation.wait_sent(*flow.sent, flow.peer);
    operation.wait_signal(flow.peer, kReadPhase);
  }
  operation.finish();
}

void exchange_messages(Operation& operation) {
  std::vector<Message> messages;
  for (const Transfer& transfer : operation.collective().transfers)
    messages.push_back(post(operation, transfer));
  for (const Message& message : messages)
    accept(operation, message);
  for (const Message& message : messages) {
    if (!message.data) continue;
    if (message.transfer->is_receive)
      operation.wait_received(*message.data, message.transfer->peer);
    else
      operation.wait_sent(*message.data, message.transfer->peer);
  }
  operation.finish();
}

}  // namespace tessera::gloo_comm
