// SPDX-License-Identifier: Apache-2.0
// What submit checks before anything is enqueued, and its errors.
//
// All checks of arguments are here and none in the communicators, so all communicators refuse the same, in the same
// words. Only what one rank can see is checked: each communicator compares the ranks' arguments itself, since that
// needs a message. Every error names the communicator, the rank, the collective, its number and its label. Cost:
// O(ranks) for slices, else O(1); no allocation when `target` has been used before, since submit is called on the
// issuing thread in every step.
#pragma once

#include "tessera/collective.hpp"
#include "tessera/ranges.hpp"

namespace tessera {

namespace collective_check {

/// The member and collective that an error is about.
struct Context {
  const Member& member;
  const Collective& collective;

  [[noreturn]] void refuse(std::string_view problem) const {
    throw collective_error(TSR_E_INVALID_ARGUMENT, member, collective, problem);
  }
  void require(bool condition, std::string_view problem) const {
    if (!condition) refuse(problem);
  }
};

inline void check_header(const Context& context) {
  const Collective& c = context.collective;
  if (c.kind < TSR_COLL_ALL_REDUCE || c.kind > TSR_COLL_BARRIER)
    context.refuse("has kind " + std::to_string(c.kind) + ", which is not a collective of this ABI");
  context.require(c.stream != nullptr, "has no stream");
  if (c.timeout_ms < 0)
    context.refuse("has timeout_ms " + std::to_string(c.timeout_ms) +
                   "; it must be positive, or 0 for the communicator's default");
  if (c.kind == TSR_COLL_BARRIER) return;
  context.require(dtype_name(c.dtype) != std::string_view("unknown"), "has an unknown dtype");
  if (is_reduction(c.kind)) {
    context.require(c.reduce >= TSR_REDUCE_SUM && c.reduce <= TSR_REDUCE_MAX, "has an unknown reduction");
    context.require(c.reduce != TSR_REDUCE_AVG || is_floating(c.dtype), "averages integers; avg is for floating types");
  }
  const bool has_root = c.kind == TSR_COLL_BROADCAST || c.kind == TSR_COLL_REDUCE;
  context.require(!has_root || (c.peer >= 0 && c.peer < context.member.num_ranks), "has a root outside the group");
}

/// The pointer of an empty slice is not checked: it may be NULL. The bound on counts keeps every later product of
/// elements and bytes, and every end of a range, within 64 bits.
inline void check_pointer(const Context& context, const void* pointer, uint64_t num_elements, std::string_view name) {
  if (num_elements == 0) return;
  context.require(pointer != nullptr, std::string(name) + " is NULL");
  const uint64_t element_bytes = context.collective.element_bytes();
  context.require(reinterpret_cast<uintptr_t>(pointer) % element_bytes == 0,
                  std::string(name) + " is not aligned to its element type");
  context.require(num_elements <= UINT64_MAX / 2 / element_bytes, "counts overflow");
}

/// `is_in_place`: send and recv overlap as the collective's in-place form requires (communicator.h). Any other overlap
/// would let one rank overwrite what another has yet to read, and the result would depend on timing.
inline void check_overlap(const Context& context, uint64_t send_elements, uint64_t recv_elements, bool is_in_place) {
  const Collective& c = context.collective;
  if (is_in_place || send_elements == 0 || recv_elements == 0) return;
  const auto send = reinterpret_cast<uintptr_t>(c.send), recv = reinterpret_cast<uintptr_t>(c.recv);
  const bool disjoint =
      send + send_elements * c.element_bytes() <= recv || recv + recv_elements * c.element_bytes() <= send;
  context.require(disjoint, "has overlapping send and recv buffers that are not its in-place form (communicator.h)");
}

/// Computes offsets: slice i starts at offsets[i], offsets[n] is the total.
inline void read_slices(const Context& context, const uint64_t* counts, std::vector<uint64_t>& offsets) {
  const size_t n = static_cast<size_t>(context.member.num_ranks);
  offsets.assign(n + 1, 0);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t slice = counts ? counts[i] : context.collective.num_elements;
    context.require(slice <= UINT64_MAX / 16 - offsets[i], "counts overflow");
    offsets[i + 1] = offsets[i] + slice;
  }
}

/// A message of a rank to itself is refused: a SEND waits for its receive, so it would wait for ever.
inline void check_message(const Context& context, const Transfer& transfer) {
  const Member& member = context.member;
  context.require(transfer.peer >= 0 && transfer.peer < member.num_ranks, "has a peer outside the group");
  context.require(transfer.peer != member.rank, "has this rank itself as peer");
  check_pointer(context, transfer.data, transfer.num_elements, transfer.is_receive ? "recv" : "send");
}

/// SEND and RECV become an exchange of one transfer, so that communicators have one path for all messages.
inline void read_messages(const Context& context, const tsr_collective& source, Collective& target) {
  if (target.kind == TSR_COLL_EXCHANGE) {
    context.require(source.transfers || source.num_transfers == 0, "has no transfers");
    for (uint64_t i = 0; i < source.num_transfers; ++i) {
      const tsr_transfer& t = source.transfers[i];
      context.require(t.spare[0] == 0 && t.spare[1] == 0, "has a transfer whose spare words are not 0");
      context.require(t.is_receive <= 1, "has a transfer whose is_receive is neither 1 nor 0");
      target.transfers.push_back(
          {static_cast<std::byte*>(t.data), t.num_elements, target.dtype, t.peer, t.is_receive != 0, 0});
    }
  } else {
    const bool is_receive = target.kind == TSR_COLL_RECV;
    std::byte* data = is_receive ? target.recv : const_cast<std::byte*>(target.send);
    target.transfers.push_back({data, target.num_elements, target.dtype, target.peer, is_receive, 0});
  }
  for (const Transfer& transfer : target.transfers)
    check_message(context, transfer);
}

/// How many elements this rank sends and receives, and which overlap is in place, by the table in communicator.h. Only
/// the root's send of a BROADCAST is read and only the root's recv of a REDUCE is written: the others' may be NULL.
inline void read_data(const Context& context, const tsr_collective& source, Collective& target) {
  const Member& member = context.member;
  const uint64_t c = target.num_elements;
  const bool is_root = target.peer == member.rank;
  const auto own_begin = [&] { return target.slice_begin(member.rank) * target.element_bytes(); };
  uint64_t send_elements = c, recv_elements = c;
  bool is_in_place = target.send == target.recv;
  switch (target.kind) {
    case TSR_COLL_ALL_REDUCE:
      divide_evenly(c, member.num_ranks, target.offsets);
      break;
    case TSR_COLL_REDUCE:
      divide_evenly(c, member.num_ranks, target.offsets);
      if (!is_root) recv_elements = 0;
      break;
    case TSR_COLL_BROADCAST:
      if (!is_root) send_elements = 0;
      break;
    case TSR_COLL_REDUCE_SCATTER:
      read_slices(context, source.counts, target.offsets);
      send_elements = target.offsets.back();
      recv_elements = target.slice_elements(member.rank);
      is_in_place = target.send && target.recv == target.send + own_begin();
      break;
    case TSR_COLL_ALL_GATHER:
      read_slices(context, source.counts, target.offsets);
      send_elements = target.slice_elements(member.rank);
      recv_elements = target.offsets.back();
      is_in_place = target.recv && target.send == target.recv + own_begin();
      break;
    default:  // ALL_TO_ALL
      read_slices(context, source.counts, target.offsets);
      read_slices(context, source.recv_counts ? source.recv_counts : source.counts, target.recv_offsets);
      send_elements = target.offsets.back();
      recv_elements = target.recv_offsets.back();
      context.require(target.slice_elements(member.rank) == target.recv_offsets[static_cast<size_t>(member.rank) + 1] -
                                                                target.recv_offsets[static_cast<size_t>(member.rank)],
                      "sends itself a number of elements that differs from the number it receives from itself");
      is_in_place = false;
  }
  check_pointer(context, target.send, send_elements, "send");
  check_pointer(context, target.recv, recv_elements, "recv");
  check_overlap(context, send_elements, recv_elements, is_in_place);
}

}  // namespace collective_check

/// The stream of a communicator: that of its first collective. [issue-thread]
class OneStream {
 public:
  /// Refuses a collective on another one: on two streams nothing would order what ranks have in common.
  void require(const Member& member, const Collective& collective) {
    if (!stream_) stream_ = collective.stream;
    if (stream_ != collective.stream)
      throw collective_error(TSR_E_INVALID_ARGUMENT, member, collective,
                             "is on another stream than those before it; a communicator is for one stream");
  }

 private:
  tsr_stream* stream_ = nullptr;
};

/// Checks `source` for `member` and fills `target`, whose capacity is used again: counts, dtype, reduction, root or
/// peer, pointers and their alignment, the in-place rules. INVALID_ARGUMENT or UNSUPPORTED name the problem.
inline void read_collective(const tsr_collective& source, const Member& member, Collective& target) {
  if (!TSR_HAS(&source, tsr_collective, label))
    throw Error(TSR_E_INVALID_ARGUMENT, member.where() + ": submit: struct_size of the collective is too small");
  target.kind = source.kind;
  target.reduce = source.reduce;
  target.dtype = source.dtype;
  target.peer = source.peer;
  target.send = static_cast<const std::byte*>(source.send);
  target.recv = static_cast<std::byte*>(source.recv);
  target.num_elements = source.kind == TSR_COLL_BARRIER ? 0 : source.num_elements;
  target.workspace = source.workspace;
  target.stream = source.stream;
  target.timeout_ms = source.timeout_ms == 0 ? member.timeout_ms : source.timeout_ms;
  target.sequence = source.sequence;
  target.ticket = 0;
  target.label.assign(view(source.label));
  target.offsets.clear();
  target.recv_offsets.clear();
  target.transfers.clear();
  const collective_check::Context context{member, target};
  context.require(source.reserved == 0, "has a reserved word that is not 0");
  collective_check::check_header(context);
  if (target.is_messages())
    collective_check::read_messages(context, source, target);
  else if (target.kind != TSR_COLL_BARRIER)
    collective_check::read_data(context, source, target);
}

}  // namespace tessera
