// SPDX-License-Identifier: Apache-2.0
// One collective inside a communicator: a checked copy of the argument of submit, with the offsets of its slices.
//
// submit() borrows its argument, and the work runs later on another thread, so communicators work on a Collective,
// which owns all but the data. Do not confuse its three numbers: `sequence` is the host's, for error messages. `ticket`
// and Transfer::index are counted here, in the order of submission, and are equal on all ranks that take part: they
// match the ranks' calls.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/communicator.h"
#include "tessera/error.hpp"

namespace tessera {

// ---- names, as program texts and messages print them ----------------------------------------------------------------

constexpr const char* collective_name(uint32_t kind) {
  constexpr const char* kNames[] = {"invalid",    "all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
                                    "all_to_all", "send",       "recv",           "exchange",   "barrier"};
  return kind <= TSR_COLL_BARRIER ? kNames[kind] : "unknown";
}
constexpr const char* reduce_name(uint32_t reduce) {
  constexpr const char* kNames[] = {"none", "sum", "avg", "min", "max"};
  return reduce <= TSR_REDUCE_MAX ? kNames[reduce] : "unknown";
}
/// "f32", "bf16", ...; "unknown" for anything but a TSR_* dtype.
constexpr const char* dtype_name(tsr_dtype dtype) {
  constexpr struct {
    tsr_dtype dtype;
    const char* name;
  } kNames[] = {{TSR_I8, "i8"},   {TSR_I32, "i32"}, {TSR_I64, "i64"}, {TSR_U8, "u8"},   {TSR_U16, "u16"},
                {TSR_U32, "u32"}, {TSR_F16, "f16"}, {TSR_F32, "f32"}, {TSR_F64, "f64"}, {TSR_BF16, "bf16"}};
  for (const auto& entry : kNames)
    if (entry.dtype == dtype) return entry.name;
  return "unknown";
}
constexpr bool is_floating(tsr_dtype dtype) {
  return dtype == TSR_F16 || dtype == TSR_BF16 || dtype == TSR_F32 || dtype == TSR_F64;
}
/// Every dtype of the ABI; for caps.
inline constexpr tsr_dtype kAllDtypes[] = {TSR_I8,  TSR_I32, TSR_I64, TSR_U8,  TSR_U16,
                                           TSR_U32, TSR_F16, TSR_F32, TSR_F64, TSR_BF16};

// ---- a collective ---------------------------------------------------------------------------------------------------

/// This rank's place in a group; every error of a communicator names it. Ranks in errors are world ranks.
struct Member {
  std::string plugin;  // "local-comm"
  std::string name;    // "dp.gather"
  int rank = 0;        // coordinate in the group
  int num_ranks = 1;
  std::vector<int> world_ranks;  // [num_ranks]
  int64_t timeout_ms = 0;        // default of every wait

  int world_rank() const { return world_ranks[static_cast<size_t>(rank)]; }
  int world_rank(int coordinate) const { return world_ranks[static_cast<size_t>(coordinate)]; }
  /// "[local-comm] dp.gather rank 3"
  std::string where() const { return "[" + plugin + "] " + name + " rank " + std::to_string(world_rank()); }
};

/// One message to or from a peer. `index` counts the messages of this communicator between the two ranks in that
/// direction, in the order of submission: equal on both sides.
struct Transfer {
  std::byte* data;
  uint64_t num_elements;
  tsr_dtype dtype;
  int peer;
  bool is_receive;
  uint64_t index;

  uint64_t num_bytes() const { return TSR_NUM_BYTES(dtype, num_elements); }
};

/// `ticket` counts the collectives in which every rank takes part (not SEND, RECV and EXCHANGE) in the order of
/// submission: equal on all ranks. Slices, in elements, one more offset than ranks, the last is the total: `offsets` of
/// REDUCE_SCATTER's send, ALL_GATHER's recv, ALL_TO_ALL's send; of ALL_REDUCE and REDUCE an even division, by which
/// ranks can share the work. `recv_offsets`: ALL_TO_ALL only. `transfers`: the messages of SEND, RECV and EXCHANGE.
struct Collective {
  uint32_t kind = 0;
  uint32_t reduce = 0;
  tsr_dtype dtype = 0;
  int peer = 0;
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  uint64_t num_elements = 0;
  std::vector<uint64_t> offsets;
  std::vector<uint64_t> recv_offsets;
  std::vector<Transfer> transfers;
  void* workspace = nullptr;
  tsr_stream* stream = nullptr;
  int64_t timeout_ms = 0;
  uint64_t sequence = 0;
  uint64_t ticket = 0;
  std::string label;

  uint64_t element_bytes() const { return TSR_NUM_BYTES(dtype, 1); }
  bool is_messages() const { return kind >= TSR_COLL_SEND && kind <= TSR_COLL_EXCHANGE; }
  uint64_t slice_elements(int rank) const { return offsets[static_cast<size_t>(rank) + 1] - slice_begin(rank); }
  uint64_t slice_begin(int rank) const { return offsets[static_cast<size_t>(rank)]; }
  /// All elements that this rank sends or receives; of messages the larger of both.
  uint64_t total_elements() const;
  /// "all_reduce #17 (gradient h.2, 4096 elements f32)"
  std::string text() const;
};

inline uint64_t Collective::total_elements() const {
  if (kind == TSR_COLL_EXCHANGE || kind == TSR_COLL_SEND || kind == TSR_COLL_RECV) {
    uint64_t sent = 0, received = 0;
    for (const Transfer& transfer : transfers)
      (transfer.is_receive ? received : sent) += transfer.num_elements;
    return std::max(sent, received);
  }
  return offsets.empty() ? num_elements : offsets.back();
}

inline std::string Collective::text() const {
  std::string text = std::string(collective_name(kind)) + " #" + std::to_string(sequence);
  const bool has_data = kind != TSR_COLL_BARRIER;
  if (!has_data && label.empty()) return text;
  text += " (" + label;
  if (has_data) {
    if (!label.empty()) text += ", ";
    text += std::to_string(total_elements()) + " elements " + dtype_name(dtype);
  }
  return text + ")";
}

/// Whether operands of all ranks are combined: ALL_REDUCE, REDUCE_SCATTER, REDUCE.
constexpr bool is_reduction(uint32_t kind) {
  return kind == TSR_COLL_ALL_REDUCE || kind == TSR_COLL_REDUCE_SCATTER || kind == TSR_COLL_REDUCE;
}

/// An Error about `collective` on this member: "<where>: <collective> <problem>". `rank`: the world rank it is about.
inline Error collective_error(tsr_status code, const Member& member, const Collective& collective,
                              std::string_view problem, int rank = -1) {
  return Error(code, member.where() + ": " + collective.text() + " " + std::string(problem), rank);
}
/// "timed out after 30000 ms waiting for rank 1, 2"; `coordinates` are of the group.
inline std::string timeout_text(const Member& member, const Collective& collective,
                                const std::vector<int>& coordinates) {
  std::string ranks;
  for (int coordinate : coordinates)
    ranks += (ranks.empty() ? "" : ", ") + std::to_string(member.world_rank(coordinate));
  return "timed out after " + std::to_string(collective.timeout_ms) + " ms waiting for rank " + ranks;
}

/// DEADLINE with timeout_text(), about the first of `coordinates`.
inline Error timeout_error(const Member& member, const Collective& collective, const std::vector<int>& coordinates) {
  return collective_error(TSR_E_DEADLINE, member, collective, timeout_text(member, collective, coordinates),
                          coordinates.empty() ? -1 : member.world_rank(coordinates.front()));
}

}  // namespace tessera
