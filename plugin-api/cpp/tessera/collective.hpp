// One collective inside a communicator: checked, copied (it outlives the call of submit), its slices laid out.
//
// submit() borrows its argument, and the work runs later on another thread: so communicators work on a Collective,
// which owns all but the data. The three numbers in it are easily confused. `sequence` is the host's, for messages to
// people. `ticket` and Transfer::index are counted here, in the order of submission, and are equal on all ranks that
// take part: they pair the ranks' calls with one another, so two streams of a rank may run collectives in either order.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/communicator.h"
#include "tessera/error.hpp"

namespace tessera {

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

/// Who this rank is in a group; every message of a communicator names it. Ranks in messages are world ranks.
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

  uint64_t num_bytes() const { return num_elements * TSR_DTYPE_BYTES(dtype); }
};

/// `ticket` counts the collectives in which every rank takes part (not SEND, RECV and EXCHANGE) in the order of
/// submission: equal on all ranks. Slices, in elements, one more offset than ranks, the last is the total:
/// `offsets` of REDUCE_SCATTER's send, ALL_GATHER's recv, ALL_TO_ALL's send; of ALL_REDUCE and REDUCE an even cut by
/// which work can be shared out. `recv_offsets`: ALL_TO_ALL only. `transfers`: the messages of SEND, RECV and EXCHANGE.
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

  uint64_t element_bytes() const { return TSR_DTYPE_BYTES(dtype); }
  bool is_messages() const { return kind >= TSR_COLL_SEND && kind <= TSR_COLL_EXCHANGE; }
  uint64_t slice_elements(int rank) const { return offsets[rank + 1u] - offsets[static_cast<size_t>(rank)]; }
  uint64_t slice_begin(int rank) const { return offsets[static_cast<size_t>(rank)]; }
  /// All elements this rank gives or takes, for messages: the larger side.
  uint64_t total_elements() const;
  /// "all_reduce #17 (gradient h.2, 4096 elements f32)"
  std::string text() const;
};

/// Checks `source` for `member` and fills `target`, whose capacity is used again: counts, dtype, reduction, root or
/// peer, pointers and their alignment, the in-place rules. INVALID_ARGUMENT or UNSUPPORTED name what is wrong.
void read_collective(const tsr_collective& source, const Member& member, Collective& target);

/// An Error about `collective` on this member: "<where>: <collective> <problem>". `rank`: the world rank it is about.
inline Error collective_error(tsr_status code, const Member& member, const Collective& collective,
                              std::string_view problem, int rank = -1) {
  return Error(code, member.where() + ": " + collective.text() + " " + std::string(problem), rank);
}
/// "timed out after 30000 ms waiting for rank 1, 2"; `coordinates` are of the group.
std::string timeout_text(const Member& member, const Collective& collective, const std::vector<int>& coordinates);
/// DEADLINE with timeout_text(), about the first of `coordinates`.
Error timeout_error(const Member& member, const Collective& collective, const std::vector<int>& coordinates);

/// Offsets [num_ranks + 1] that cut num_elements evenly, on multiples of 64 elements.
void cut_evenly(uint64_t num_elements, int num_ranks, std::vector<uint64_t>& offsets);

}  // namespace tessera

#include "tessera/collective_check.hpp"
