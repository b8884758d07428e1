// SPDX-License-Identifier: Apache-2.0
// How the members of a group exchange values through the key-value service.
//
// Every wait is cut into waits of kCancelPollMs, since the service does not know that create was cancelled.
#pragma once

#include "tessera/collective.hpp"
#include "tessera/communicator.h"
#include "tessera/key_value.hpp"

namespace tessera {

inline constexpr int64_t kCancelPollMs = 200;  // how soon a cancellation is seen

/// The flag by which the host cancels create. Borrows: it ends with the call of create.
class CancelFlag {
 public:
  explicit CancelFlag(const uint32_t* flag = nullptr) : flag_(flag) {}
  bool is_there() const noexcept { return flag_ != nullptr; }
  bool is_set() const noexcept { return flag_ && __atomic_load_n(flag_, __ATOMIC_ACQUIRE) != 0; }
  /// Throws ABORTED if it is set.
  void check(const Member& member) const {
    if (is_set()) throw Error(TSR_E_ABORTED, member.where() + ": create was cancelled", member.world_rank());
  }

 private:
  const uint32_t* flag_;
};

/// The value under "<prefix>/<rank>", which that member sets. At the deadline an error names its world rank; `what` is
/// the operation in its text. ABORTED soon after `cancel` is set. [control-thread]
inline std::string wait_for_rank(const KeyValue& store, const std::string& prefix, const Member& member, int rank,
                                 const Deadline& deadline, const CancelFlag& cancel, std::string_view what) {
  const std::string where = member.where() + ": " + std::string(what);
  for (;;) {
    cancel.check(member);
    const int64_t left_ms = deadline.left_ms();
    try {
      return store.get(prefix + "/" + std::to_string(rank), std::min(left_ms, kCancelPollMs));
    } catch (const Error& error) {
      if (error.code() != TSR_E_DEADLINE) throw;
      if (left_ms > kCancelPollMs) continue;
    }
    throw Error(TSR_E_DEADLINE,
                where + " timed out after " + std::to_string(member.timeout_ms) + " ms waiting for rank " +
                    std::to_string(member.world_rank(rank)),
                member.world_rank(rank));
  }
}

}  // namespace tessera
