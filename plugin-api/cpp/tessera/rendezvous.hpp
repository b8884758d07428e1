// SPDX-License-Identifier: Apache-2.0
// How the members of a group exchange values through the key-value service.
//
// Every wait is split into waits of kPollMs, since the service does not know of abort(). With n members a split is n
// values set and n * n read, each of a few bytes: splits happen at the start of a job, not in a step.
#pragma once

#include <atomic>
#include <optional>

#include "tessera/collective.hpp"
#include "tessera/key_value.hpp"

namespace tessera {

/// The value under "<prefix>/<rank>", which that member sets. At the deadline an error names its world rank; `what` is
/// the operation in its text. ABORTED soon after `aborted` is set. [control-thread]
inline std::string wait_for_rank(const KeyValue& store, const std::string& prefix, const Member& member, int rank,
                                 const Deadline& deadline, const std::atomic<bool>& aborted, std::string_view what) {
  constexpr int64_t kPollMs = 200;  // how soon an abort is seen
  const std::string where = member.where() + ": " + std::string(what);
  for (;;) {
    if (aborted.load(std::memory_order_acquire))
      throw Error(TSR_E_ABORTED, where + " was aborted", member.world_rank());
    const int64_t left_ms = deadline.left_ms();
    try {
      return store.get(prefix + "/" + std::to_string(rank), std::min(left_ms, kPollMs));
    } catch (const Error& error) {
      if (error.code() != TSR_E_DEADLINE) throw;
      if (left_ms > kPollMs) continue;
    }
    throw Error(TSR_E_DEADLINE,
                where + " timed out after " + std::to_string(member.timeout_ms) + " ms waiting for rank " +
                    std::to_string(member.world_rank(rank)),
                member.world_rank(rank));
  }
}

/// The group that a split puts this rank into.
struct SplitGroup {
  int rank = 0;                  // coordinate in it
  std::vector<int> world_ranks;  // of its members, in their new order
};

/// All members publish their color and key under `prefix`, which is unique to this split. Returns the members of equal
/// color, ordered by key, then rank; nothing for color < 0. Errors as wait_for_rank. [control-thread]
inline std::optional<SplitGroup> agree_on_split(const KeyValue& store, const std::string& prefix, const Member& member,
                                                int color, int key, const std::atomic<bool>& aborted) {
  struct Choice {
    int32_t color, key;
  };
  const Deadline deadline(member.timeout_ms);
  store.set(prefix + "/" + std::to_string(member.rank), to_bytes(Choice{color, key}));
  std::vector<std::pair<int32_t, int>> chosen;  // {key, coordinate} of the members with this rank's color
  for (int rank = 0; rank < member.num_ranks; ++rank) {
    const auto choice = from_bytes<Choice>(wait_for_rank(store, prefix, member, rank, deadline, aborted, "split"));
    if (color >= 0 && choice.color == color) chosen.emplace_back(choice.key, rank);
  }
  if (color < 0) return std::nullopt;
  std::sort(chosen.begin(), chosen.end());
  SplitGroup group;
  for (const auto& [order, rank] : chosen) {
    if (rank == member.rank) group.rank = static_cast<int>(group.world_ranks.size());
    group.world_ranks.push_back(member.world_rank(rank));
  }
  return group;
}

}  // namespace tessera
