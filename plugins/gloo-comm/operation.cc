#include "gloo-comm/operation.h"

namespace tessera::gloo_comm {

std::vector<int> Operation::peers() const {
  std::vector<int> peers;
  for (int i = 1; i < num_ranks(); ++i)
    peers.push_back((rank() + i) % num_ranks());
  return peers;
}

Buffer& Operation::buffer(const void* data, uint64_t num_bytes) {
  // gloo has one type for both directions.
  buffers_.push_back(endpoint_.mesh.buffer(const_cast<void*>(data), num_bytes));
  return *buffers_.back();
}

void Operation::fail(int peer) const {
  if (endpoint_.waiter.is_aborted()) fail_aborted();  // what befell the peer follows from it
  const Fault fault = endpoint_.watch.explain(peer);
  throw collective_error(fault.code, endpoint_.member, collective_, fault.text, fault.world_rank);
}

void Operation::fail_aborted() const {
  throw collective_error(TSR_E_ABORTED, endpoint_.member, collective_, "was aborted", endpoint_.member.world_rank());
}

// The peer may itself be late because it waits for another: its own deadline passed a little earlier then, and it says
// so.
void Operation::time_out(int peer) {
  constexpr int64_t kGraceMs = 150;
  const Error error = timeout_error(endpoint_.member, collective_, {peer});
  endpoint_.watch.announce({error.code(), error.rank(), error.what()});
  endpoint_.waiter.begin(Deadline(kGraceMs));
  const Outcome outcome = endpoint_.waiter.wait_received(endpoint_.watch.notice(peer));
  if (outcome != Outcome::kDone && outcome != Outcome::kBroken) throw error;
  const Fault fault = outcome == Outcome::kDone ? endpoint_.watch.read_notice(peer) : endpoint_.watch.explain(peer);
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
  for (uint64_t i = 0; i < num_messages; ++i)
    check(endpoint_.waiter.wait_sent(buffer), peer);
}

void Operation::wait_received(Buffer& buffer, int peer, uint64_t num_messages) {
  for (uint64_t i = 0; i < num_messages; ++i)
    check(endpoint_.waiter.wait_received(buffer), peer);
}

void Operation::greet(int peer, Header header, const void* data, uint64_t num_bytes, uint64_t slot) {
  header.num_inline_bytes = num_bytes;
  Greeting& greeting = greetings_.emplace_back();
  greeting.peer = peer;
  greeting.data.resize(sizeof header + num_bytes);
  std::memcpy(greeting.data.data(), &header, sizeof header);
  if (num_bytes > 0) std::memcpy(greeting.data.data() + sizeof header, data, num_bytes);
  greeting.buffer = &buffer(greeting.data.data(), greeting.data.size());
  send(*greeting.buffer, peer, slot, 0, greeting.data.size());
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

const std::byte* Operation::meet(int peer, Header expected, uint64_t num_bytes) {
  check(endpoint_.waiter.wait_received(endpoint_.mailbox.front(peer)), peer);
  const std::byte* message = endpoint_.mailbox.message(peer);
  Header received;
  std::memcpy(&received, message, sizeof received);
  expected.num_inline_bytes = num_bytes;
  compare(peer, expected, received);
  headers_.resize(static_cast<size_t>(num_ranks()));
  headers_[static_cast<size_t>(peer)] = received;
  met_.push_back(peer);
  return message + sizeof received;
}

void Operation::read(int peer, uint64_t address, void* to, uint64_t num_bytes) {
  if (!endpoint_.direct.read(peer, address, to, num_bytes)) fail(peer);
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
  for (const Greeting& greeting : greetings_)
    wait_sent(*greeting.buffer, greeting.peer);
  for (const Signal& signal : signals_out_)
    wait_sent(*signal.buffer, signal.peer);
  for (const int peer : met_) {
    try {
      endpoint_.mailbox.pop(peer);
    } catch (const std::exception&) {
      // The connection is lost. This operation is complete; the next one that needs the peer will say so.
    }
  }
}

}  // namespace tessera::gloo_comm
