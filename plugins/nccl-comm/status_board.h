// What ranks publish about themselves in the key-value store: enough to name the missing rank in an error.
#pragma once

#include <mutex>
#include <optional>

#include "tessera/collective.hpp"
#include "tessera/key_value.hpp"

namespace tessera::nccl_comm {

/// What NCCL does not tell: which members wait in a collective that does not end, and which member has stopped.
/// Counters in the job's key-value store, used only when a collective takes long or has failed; when the store does not
/// answer, nothing is known. [any-thread, waits for the store]
class StatusBoard {
 public:
  /// Borrows the host and `member`.
  StatusBoard(const tsr_host* host, std::string prefix, const Member& member);

  /// Publishes that this rank has reached the collective with that ticket.
  void post_waiting(uint64_t ticket) noexcept;
  /// The members (coordinates) that have not published that.
  std::vector<int> missing(uint64_t ticket) const noexcept;

  /// Publishes that this rank stops using the communicator.
  void post_stopped() noexcept;
  /// The member that stopped first, if any.
  std::optional<int> first_stopped() const noexcept;

 private:
  std::string wait_key(int rank) const { return prefix_ + "/waits/" + std::to_string(rank); }

  const KeyValue store_;
  const std::string prefix_, stop_key_;
  const Member& member_;
  std::mutex mutex_;
  int64_t posted_ = 0;  // the value of this rank's counter; guarded by mutex_
};

}  // namespace tessera::nccl_comm
