// SPDX-License-Identifier: Apache-2.0
// How the members of a group exchange values through the key-value service.
//
// Every wait is cut into waits of kPollMs, since the service does not know of abort().
#pragma once

#include <atomic>

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

}  // namespace tessera
