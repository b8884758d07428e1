#include "gloo-comm/collectives/operation.h"

namespace tessera::gloo_comm {

std::vector<int> Operation::peers() const {
  std::vector<int> peers;
  for (int i = 1; i < num_ranks(); ++i)
    peers.push_back((rank() + i) % num_ranks());
  return peers;
}

Buffer& Operation::buffer(const void* data, uint64_t num_bytes) {
  // gloo has one type for both directions.
  buffers_.push_back(endpoint_.connections.buffer(const_cast<void*>(data), num_bytes));
  return *buffers_.back();
}

void Operation::fail(int peer) const {
  if (endpoint_.wait.is_aborted()) fail_aborted();  // the peer's failure is a consequence
  const Fault fault = endpoint_.failure_detector.cause_of_loss(peer);
  throw collective_error(fault.code, endpoint_.member, collective_, fault.text, fault.world_rank);
}

void Operation::fail_aborted() const {
  throw collective_error(TSR_E_ABORTED, endpoint_.member, collective_, "was aborted", endpoint_.member.world_rank());
}

// The peer may be late because it waits for another rank: then its own deadline passed a little earlier, and its error
// notice is on its way.
void Operation::time_out(int peer) {
  constexpr int64_t kGraceMs = 150;
  const Error error = timeout_error(endpoint_.member, collective_, {peer});
  endpoint_.failure_detector.announce({error.code(), error.rank(), error.what()});
  endpoint_.wait.begin(Deadline(kGraceMs));
  const Outcome outcome = endpoint_.wait.wait_received(endpoint_.failure_detector.notice(peer));
  if (outcome != Outcome::kDone && outcome != Outcome::kBroken) throw error;
  const Fault fault = outcome == Outcome::kDone ? endpoint_.failure_detector.read_notice(peer)
                                                : endpoint_.failure_detector.cause_of_loss(peer);
  if (fault.world_rank == endpoint_.member.world_rank()) throw error;
  throw collective_error(fault.code, endpoint_.member, collective_, fault.text, fault.world_rank);
}

void Operation::check(Outcome outcome, int peer) {
  switch (outcome) {
    case Outcome::kDone:
      return;
    case Outcome::kTimedOut:
      time_out(peer);
    case Outcome::kAborted:
      fail_aborted();
    case Outcome::kBroken:
      fail(peer);
  }
}

void Operation::send(Buffer& buffer, int peer, uint64_t slot, uint64_t offset, uint64_t num_bytes) {
  try {
    buffer.send(peer, slot, offset, num_bytes);
    ++num_sending_;
  } catch (const std::exception&) {
    fail(peer);
  }
}

void Operation::receive(Buffer& buffer, int peer, uint64_t slot, uint64_t offset, uint64_t num_bytes) {
  try {
    buffer.recv(peer, slot, offset, num_bytes);
  } catch (const std::exception&) {
    fail(peer);
  }
}

void Operation::wait_sent(Buffer& buffer, int peer, uint64_t num_messages) {
  for (uint64_t i = 0; i < num_messages; ++i) {
    check(endpoint_.wait.wait_sent(buffer), peer);
    --num_sending_;
  }
}

void Operation::wait_received(Buffer& buffer, int peer, uint64_t num_messages) {
  for (uint64_t i = 0; i < num_messages; ++i)
    check(endpoint_.wait.wait_received(buffer), peer);
}

void Operation::send_header(int peer, Header header, const void* data, uint64_t num_bytes, uint64_t slot) {
  header.num_inline_bytes = num_bytes;
  header.is_readable = is_readable_;
  HeaderMessage& message = sent_headers_.emplace_back();
  message.peer = peer;
  message.data.resize(sizeof header + num_bytes);
  std::memcpy(message.data.data(), &header, sizeof header);
  if (num_bytes > 0) std::memcpy(message.data.data() + sizeof header, data, num_bytes);
  message.buffer = &buffer(message.data.data(), message.data.size());
  send(*message.buffer, peer, slot, 0, message.data.size());
}

void Operation::compare(int peer, const Header& expected, const Header& received) const {
  const char* what = difference(expected, received);
  if (!what) return;
  const Member& member = endpoint_.member;
  const std::string peer_name = "rank " + std::to_string(member.world_rank(peer));
  throw collective_error(TSR_E_INVALID_ARGUMENT, member, collective_,
                         std::string("does not match between ranks in ") + what + ": rank " +
                             std::to_string(member.world_rank()) + " has " + header_text(expected) + ", " + peer_name +
                             " has " + header_text(received),
                         member.world_rank(peer));
}

const std::byte* Operation::receive_header(int peer, Header expected, uint64_t num_bytes) {
  check(endpoint_.wait.wait_received(endpoint_.posted_headers.front(peer)), peer);
  const std::byte* message = endpoint_.posted_headers.message(peer);
  Header received;
  std::memcpy(&received, message, sizeof received);
  expected.num_inline_bytes = num_bytes;
  compare(peer, expected, received);
  headers_.resize(static_cast<size_t>(num_ranks()));
  headers_[static_cast<size_t>(peer)] = received;
  received_from_.push_back(peer);
  return message + sizeof received;
}

void Operation::offer(const void* data, uint64_t num_bytes) {
  is_readable_ = is_readable_ && CmaReader::is_readable(data, num_bytes);
}

void Operation::read(int peer, uint64_t address, void* to, uint64_t num_bytes) {
  if (!endpoint_.cma.read(peer, address, to, num_bytes)) fail(peer);
}

void Operation::expect_signal(int peer, uint64_t phase) {
  Signal& signal = signals_in_.emplace_back(Signal{peer, phase});
  signal.buffer = &buffer(&signal.byte, 1);
  receive(*signal.buffer, peer, data_slot(collective_.ticket, phase), 0, 1);
}

void Operation::signal(int peer, uint64_t phase) {
  Signal& signal = signals_out_.emplace_back(Signal{peer, phase});
  signal.buffer = &buffer(&signal.byte, 1);
  send(*signal.buffer, peer, data_slot(collective_.ticket, phase), 0, 1);
}

void Operation::wait_signal(int peer, uint64_t phase) {
  for (const Signal& signal : signals_in_)
    if (signal.peer == peer && signal.phase == phase) return wait_received(*signal.buffer, peer);
}

void Operation::refuse(std::string_view problem) const {
  throw collective_error(TSR_E_INVALID_ARGUMENT, endpoint_.member, collective_, problem, endpoint_.member.world_rank());
}

void Operation::finish() {
  for (const HeaderMessage& message : sent_headers_)
    wait_sent(*message.buffer, message.peer);
  for (const Signal& signal : signals_out_)
    wait_sent(*signal.buffer, signal.peer);
  // gloo drops what is still to be sent of a buffer that is gone, and all that follows it.
  if (num_sending_ != 0)
    throw collective_error(TSR_E_INTERNAL, endpoint_.member, collective_,
                           "ends while " + std::to_string(num_sending_) + " of its messages are on their way");
  for (const int peer : received_from_) {
    try {
      endpoint_.posted_headers.pop(peer);
    } catch (const std::exception&) {
      // The connection is lost. This operation is complete; the next one that needs the peer will report it.
    }
  }
}

}  // namespace tessera::gloo_comm
