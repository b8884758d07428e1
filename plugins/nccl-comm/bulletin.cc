// Only counters are used, since add() never waits for a key: `waits/<r>` is one more than the highest ticket that rank
// r has waited in, and a read is an add of 0. Tickets count the collectives of a communicator, so one number says it
// for all earlier ones too. `stopped/claims` lets only the first that stops write who it was. Nothing here throws: it
// helps to explain an error, and must not become one.
#include "nccl-comm/bulletin.h"

namespace tessera::nccl_comm {

Bulletin::Bulletin(const tsr_host* host, std::string prefix, const Member& member)
    : store_(host), prefix_(std::move(prefix)), stop_key_(prefix_ + "/stopped"), member_(member) {}

void Bulletin::waits_in(uint64_t ticket) noexcept {
  const std::lock_guard lock(mutex_);
  const int64_t value = static_cast<int64_t>(ticket) + 1;
  if (value <= told_) return;
  try {
    store_.add(wait_key(member_.rank), value - told_);
    told_ = value;
  } catch (const std::exception&) {
  }
}

std::vector<int> Bulletin::missing(uint64_t ticket) const noexcept {
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

void Bulletin::stops() noexcept {
  try {
    if (store_.add(stop_key_ + "/claims", 1) == 1) store_.add(stop_key_, member_.rank + 1);
  } catch (const std::exception&) {
  }
}

std::optional<int> Bulletin::stopped() const noexcept {
  try {
    const int64_t value = store_.add(stop_key_, 0);
    if (value == 0) return std::nullopt;
    return static_cast<int>(value) - 1;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace tessera::nccl_comm
