// What travels between two members over gloo's unbound buffers.
//
// A collective starts with a header from each rank to each other; short data travels inside it. The rest follows only
// between ranks whose headers agree, and only then is anything written to the receiver: gloo ends the process when a
// message is longer than the buffer it meets, and completes silently when it is shorter.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include <gloo/transport/unbound_buffer.h>

#include "tessera/collective.hpp"

namespace tessera::gloo_comm {

using Buffer = ::gloo::transport::UnboundBuffer;
using BufferPtr = std::unique_ptr<Buffer>;

/// Of one collective from one rank to another, or of one message.
struct Header {
  uint32_t kind;  // TSR_COLL_*; SEND for every message
  uint32_t reduce;
  tsr_dtype dtype;
  int32_t root;
  uint64_t ticket;  // of the collective; the index of a message
  uint64_t num_elements;
  uint64_t counts_hash;
  uint64_t sequence;
  uint64_t num_inline_bytes;  // that follow
  uint64_t address;           // of what it gives the peer, in its memory
  uint64_t result;            // of an ALL_REDUCE: of the slice that it reduces, there
  uint64_t reserved;
};
static_assert(sizeof(Header) == 80);

/// A rank's last words to its peers, when it stops using the communicator because of an error.
struct Notice {
  int32_t code;
  int32_t world_rank;  // whom the error is about, -1 if nobody
  char text[440];      // zero-terminated
};

constexpr uint64_t kInlineBytes = 4096;
constexpr uint64_t kMaxMessageBytes = sizeof(Header) + kInlineBytes;

// Slots: a message meets the receive that was posted under the same slot; several meet in order.
constexpr uint64_t kHeaderSlot = 1;    // headers of collectives
constexpr uint64_t kNoticeSlot = 2;    // at most one Notice
constexpr uint64_t kTripwireSlot = 3;  // nothing, ever: a receive that fails when the connection is lost
constexpr uint64_t kFarewellSlot = 4;  // one byte, sent by the peer's gloo thread once it has read all that came before
constexpr uint64_t kDataPhases = 4;
constexpr uint64_t kReadPhase = 2;     // a byte: what was given has been read, and what was reduced is there
constexpr uint64_t kReadAllPhase = 3;  // a byte: and what was reduced has been read

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
/// Data of a message. Receives are posted before the header is read, so the length is part of the slot: other data
/// meets no receive.
constexpr uint64_t message_data_slot(uint64_t index, tsr_dtype dtype, uint64_t num_bytes) {
  return uint64_t{3} << 62 | mix(mix(mix(1, index), dtype), num_bytes) >> 2;
}

/// The header of a collective from this rank to `peer`, and the one expected from it (`outgoing` false): they differ in
/// the number of elements of ALL_TO_ALL only.
Header make_header(const Collective& collective, int peer, bool outgoing);
Header make_header(const Collective& collective, const Transfer& transfer);

/// What differs between the two headers of a collective ("dtype"), or NULL.
const char* difference(const Header& expected, const Header& received);

/// "all_reduce #17 (sum, 4096 elements f32)"
std::string header_text(const Header& header);

}  // namespace tessera::gloo_comm
