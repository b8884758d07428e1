// The messages between two members over gloo's unbound buffers, and the slots that match them.
//
// A collective starts with a header from each rank to each other; short data travels inside it. Longer data follows
// only between ranks whose headers agree: gloo ends the process when a message is longer than the buffer that receives
// it, and completes silently when it is shorter.
#pragma once

#include <cstdint>
#include <memory>

#include <gloo/transport/unbound_buffer.h>

#include "tessera/collective.hpp"

namespace tessera::gloo_comm {

using Buffer = ::gloo::transport::UnboundBuffer;
using BufferPtr = std::unique_ptr<Buffer>;

/// The header of a collective from one rank to another, or of one message.
struct Header {
  uint32_t kind;  // TSR_COLL_*; SEND for every message
  uint32_t reduce;
  tsr_dtype dtype;
  int32_t root;
  uint64_t ticket;  // of the collective; the index of a message
  uint64_t num_elements;
  uint64_t counts_hash;  // of ALL_TO_ALL: the elements the other way
  uint64_t sequence;
  uint64_t num_inline_bytes;  // that follow
  uint64_t address;           // of the data for the peer, in this rank's memory
  uint64_t result;            // of an ALL_REDUCE: of the slice that this rank reduces, in its memory
  uint64_t is_readable;       // 1: other processes can read what these addresses name
};
static_assert(sizeof(Header) == 80);

/// An error notice: sent to all peers by a rank that stops using the communicator because of an error.
struct Notice {
  int32_t code;
  int32_t world_rank;  // the rank that the error is about, -1 if none
  char text[440];      // zero-terminated
};

constexpr uint64_t kInlineBytes = 4096;
constexpr uint64_t kMaxMessageBytes = sizeof(Header) + kInlineBytes;

// Slots: a message matches the receive that was posted under the same slot; several match in order.
constexpr uint64_t kHeaderSlot = 1;         // headers of collectives
constexpr uint64_t kNoticeSlot = 2;         // at most one Notice
constexpr uint64_t kLivenessProbeSlot = 3;  // never sent: its receive fails when the connection is lost
constexpr uint64_t kGoodbyeSlot = 4;  // one byte, sent by the peer's gloo thread once it has read all that came before
constexpr uint64_t kDataPhases = 4;
constexpr uint64_t kReadPhase = 2;     // one byte: the operands have been read, and the reduced slice is ready
constexpr uint64_t kReadAllPhase = 3;  // one byte: the reduced slice has been read

constexpr uint64_t kCreateTicket = (uint64_t{1} << 59) - 1;  // of the barrier that ends create

constexpr uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccdu;
  return hash ^ (hash >> 33);
}

/// Data of a collective; `phase` < kDataPhases.
constexpr uint64_t data_slot(uint64_t ticket, uint64_t phase) {
  return uint64_t{1} << 62 | (ticket * kDataPhases + phase);
}
/// Headers of a message, from its sender and from its receiver.
constexpr uint64_t message_header_slot(uint64_t index, bool from_receiver) {
  return uint64_t{2} << 62 | index << 1 | (from_receiver ? 1 : 0);
}
/// Data of a message. Receives are posted before the header is read, so the length is part of the slot: data of another
/// length matches no receive.
constexpr uint64_t message_data_slot(uint64_t index, tsr_dtype dtype, uint64_t num_bytes) {
  return uint64_t{3} << 62 | mix(mix(mix(1, index), dtype), num_bytes) >> 2;
}

/// The header of a collective from this rank to `peer`, and the one expected from it (`outgoing` false): they differ in
/// the number of elements of ALL_TO_ALL only.
Header make_header(const Collective& collective, int peer, bool outgoing);
Header make_header(const Collective& collective, const Transfer& transfer);

/// The property in which two headers differ ("dtype"), or NULL.
const char* difference(const Header& expected, const Header& received);

/// "all_reduce #17 (sum, 4096 elements f32)"
std::string header_text(const Header& header);

}  // namespace tessera::gloo_comm
