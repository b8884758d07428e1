// Coordinate 0 makes the state and puts its address into the key-value store; the others read it. An address is valid
// in one process only, so it comes with the process id and the address of a function of this library: process ids may
// be equal in two containers, but hardly together with the address of the code.
//
// Ownership when some ranks are missing: references start at n. Each rank increments the counter `claims` before it
// touches the state, and drops its reference at its end. When coordinate 0 times out it adds kClosed to the counter:
// the part below kClosed is the number of ranks that came before, and coordinate 0 drops the references of the others;
// a rank that comes later reads more than kClosed and must not touch the state, which may be gone. One atomic counter
// decides both.
//
// attach() is the barrier at the end of create: no rank may submit before it, since a collective reads the memory of
// all ranks. The first rank whose deadline passes fails the state for all, so all name the same missing rank.
#include "local-comm/shared_state.h"

#include <unistd.h>

#include <algorithm>

namespace tessera::local {
namespace {

struct SharedStateAddress {
  int64_t process_id;
  uint64_t code;  // where address_of_code is loaded: differs between processes even if their ids (in containers) do not
  uint64_t state;
};

// Added to the counter of claims when coordinate 0 times out.
constexpr int64_t kClosed = int64_t{1} << 32;

uint64_t address_of_code() {
  return reinterpret_cast<uint64_t>(&address_of_code);
}

SharedStateRef make_shared_state(const KeyValue& store, const std::string& prefix, const Member& member,
                                 const Deadline& deadline, const CancelFlag& cancel) {
  SharedStateRef state(new SharedState(member.num_ranks));
  const auto drop_missing = [&](int64_t num_claims) {
    state->release(member.num_ranks - 1 - static_cast<int>(num_claims));
  };
  try {
    store.set(prefix + "/shared_state/0",
              to_bytes(SharedStateAddress{getpid(), address_of_code(), reinterpret_cast<uint64_t>(state.get())}));
  } catch (...) {
    drop_missing(0);
    throw;
  }
  try {
    state->attach(member, deadline, cancel);
  } catch (...) {
    // If the store is gone too, the number of claims is unknown, and the state is leaked.
    drop_missing(store.add(prefix + "/claims", kClosed) - kClosed);
    throw;
  }
  return state;
}

SharedStateRef claim_shared_state(const KeyValue& store, const std::string& prefix, const Member& member,
                                  const Deadline& deadline, const CancelFlag& cancel) {
  const auto address = from_bytes<SharedStateAddress>(
      wait_for_rank(store, prefix + "/shared_state", member, 0, deadline, cancel, "create"));
  const std::string where = member.where() + ": create ";
  if (address.process_id != getpid() || address.code != address_of_code())
    throw Error(TSR_E_FAILED_PRECONDITION,
                where + "runs in process " + std::to_string(getpid()) + " and rank " +
                    std::to_string(member.world_rank(0)) + " in process " + std::to_string(address.process_id) +
                    "; the ranks of local-comm must be threads of one process: use another communicator");
  if (store.add(prefix + "/claims", 1) > kClosed)
    throw Error(TSR_E_DEADLINE, where + "came after rank " + std::to_string(member.world_rank(0)) + " had timed out",
                member.world_rank());
  SharedStateRef state(reinterpret_cast<SharedState*>(address.state));
  state->attach(member, deadline, cancel);
  return state;
}

Failure cancelled(const Member& member) {
  return {TSR_E_ABORTED, member.world_rank(), "was cancelled by rank " + std::to_string(member.world_rank())};
}

Failure timed_out(const Member& member, const std::vector<bool>& present) {
  const auto missing = std::find(present.begin(), present.end(), false) - present.begin();
  const int rank = member.world_rank(static_cast<int>(missing));
  return {TSR_E_DEADLINE, rank,
          "timed out after " + std::to_string(member.timeout_ms) + " ms waiting for rank " + std::to_string(rank)};
}

}  // namespace

void SharedState::attach(const Member& member, const Deadline& deadline, const CancelFlag& cancel) {
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
  do {
    if (monitor_.wait(lock, Deadline(std::min(deadline.left_ms(), kCancelPollMs)), is_complete)) return;
  } while (!monitor_.failure(lock) && !cancel.is_set() && !deadline.passed());
  monitor_.fail(lock, std::make_shared<Failure>(cancel.is_set() ? cancelled(member) : timed_out(member, present_)));
  const Failure& first = *monitor_.failure(lock);
  throw Error(first.code, where + first.text, first.rank);
}

void SharedState::release(int num_references) {
  if (num_references_.fetch_sub(num_references, std::memory_order_acq_rel) == num_references) delete this;
}

SharedStateRef join_shared_state(const KeyValue& store, const std::string& prefix, const Member& member,
                                 const CancelFlag& cancel) {
  const Deadline deadline(member.timeout_ms);
  return member.rank == 0 ? make_shared_state(store, prefix, member, deadline, cancel)
                          : claim_shared_state(store, prefix, member, deadline, cancel);
}

}  // namespace tessera::local
