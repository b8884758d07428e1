// Only counters are used, since add() never waits for a key: `waits/<r>` is one more than the highest ticket that rank
// r has waited in, and a read is an add of 0. Tickets count the collectives of a communicator, so one number covers all
// earlier ones. `stopped/claims` lets only the first rank that stops write its coordinate. Nothing here throws: it
// helps to explain an error, and must not become one.
#include "nccl-comm/status_board.h"

namespace tessera::nccl_comm {

StatusBoard::StatusBoard(const tsr_host* host, std::string prefix, const Member& member)
    : store_(host), prefix_(std::move(prefix)), stop_key_(prefix_ + "/stopped"), member_(member) {}

void StatusBoard::post_waiting(uint64_t ticket) noexcept {
  const std::lock_guard lock(mutex_);
  const int64_t value = static_cast<int64_t>(ticket) + 1;
  if (value <= posted_) return;
  try {
    store_.add(wait_key(member_.rank), value - posted_);
    posted_ = value;
  } catch (const std::exception&) {
  }
}

std::vector<int> StatusBoard::missing(uint64_t ticket) const noexcept {
  std::vector<int> missing;
  try {
    for (int rank = 0; rank < member_.num_ranks; ++rank)
      if (rank != member_.rank && store_.add(wait_key(rank), 0) <= static_cast<int64_t>(ticket))
        missing.push_back(rank);
  } catch (const std::exception&) {
    missing.clear();
  }
  return missing;
}

void StatusBoard::post_stopped() noexcept {
  try {
    if (store_.add(stop_key_ + "/claims", 1) == 1) store_.add(stop_key_, member_.rank + 1);
  } catch (const std::exception&) {
  }
}

std::optional<int> StatusBoard::first_stopped() const noexcept {
  try {
    const int64_t value = store_.add(stop_key_, 0);
    if (value == 0) return std::nullopt;
    return static_cast<int>(value) - 1;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace tessera::nccl_comm
