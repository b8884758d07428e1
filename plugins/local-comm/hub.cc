// How the ranks of a group find that all of them are there. attach() is the barrier at the end of create: nobody may
// submit before it, since a collective reads the memory of all ranks and a rank that never came would be a deadlock
// with a worse message. The first rank whose deadline passes fails the hub for all, so all name the same missing rank.
#include "local-comm/hub.h"

#include <algorithm>

namespace tessera::local {

void Hub::attach(const Member& member, const Deadline& deadline) {
  const std::string where = member.where() + ": create ";
  const size_t rank = static_cast<size_t>(member.rank);
  auto lock = monitor_.lock();
  if (present_.size() != static_cast<size_t>(member.num_ranks))
    throw Error(TSR_E_INVALID_ARGUMENT, where + "with " + std::to_string(member.num_ranks) +
                                            " ranks joins a group of " + std::to_string(present_.size()));
  if (present_[rank])
    throw Error(TSR_E_INVALID_ARGUMENT, where + "found coordinate " + std::to_string(rank) + " already taken");
  present_[rank] = true;
  monitor_.notify();
  const auto is_complete = [&] { return std::find(present_.begin(), present_.end(), false) == present_.end(); };
  if (monitor_.wait(lock, deadline, is_complete)) return;
  const auto missing = std::find(present_.begin(), present_.end(), false) - present_.begin();
  const int missing_rank = member.world_rank(static_cast<int>(missing));
  const std::string text =
      "timed out after " + std::to_string(member.timeout_ms) + " ms waiting for rank " + std::to_string(missing_rank);
  monitor_.fail(lock, std::make_shared<Failure>(Failure{TSR_E_DEADLINE, missing_rank, text}));
  throw Error(TSR_E_DEADLINE, where + text, missing_rank);
}

void Hub::release(int num_references) {
  if (num_references_.fetch_sub(num_references, std::memory_order_acq_rel) == num_references) delete this;
}

}  // namespace tessera::local
