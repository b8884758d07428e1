// What ranks tell one another beside NCCL: enough to name the missing rank in an error.
#pragma once

#include <mutex>
#include <optional>

#include "tessera/collective.hpp"
#include "tessera/key_value.hpp"

namespace tessera::nccl_comm {

/// What members tell one another where NCCL tells nothing: who has come to a collective that does not end, and that a
/// member has stopped. Counters in the job's key-value store, touched only when something takes long or has failed;
/// when the store does not answer, nothing is known. [any-thread, waits for the store]
class Bulletin {
 public:
  /// Borrows the host and `member`.
  Bulletin(const tsr_host* host, std::string prefix, const Member& member);

  /// This rank waits in the collective of that ticket, as in all before it.
  void waits_in(uint64_t ticket) noexcept;
  /// The members (coordinates) that have not said so.
  std::vector<int> missing(uint64_t ticket) const noexcept;

  /// This rank stops using the communicator.
  void stops() noexcept;
  /// The member that stopped first, if one did.
  std::optional<int> stopped() const noexcept;

 private:
  std::string wait_key(int rank) const { return prefix_ + "/waits/" + std::to_string(rank); }

  const KeyValue store_;
  const std::string prefix_, stop_key_;
  const Member& member_;
  std::mutex mutex_;
  int64_t told_ = 0;  // the value of this rank's counter; guarded by mutex_
};

}  // namespace tessera::nccl_comm
