// Coordinate 0 makes the hub and puts its address into the key-value store; the others read it. An address is worth
// something in one process only, so it comes with the process id and the address of a function of this library: in two
// containers ids may be equal, but not with code at one place and the same store by chance.
//
// Who owns the hub when some do not come? References start at n. Each rank that comes counts up `claims` before it
// touches the hub, and gives its reference back at its end. When coordinate 0 gives up it adds kClosed to the counter:
// what it reads below kClosed is how many came before, and the references of the others are its to drop; who counts
// after that reads more than kClosed, knows that the hub may be gone, and stays away. One atomic counter decides both.
#include "local-comm/rendezvous.h"

#include <unistd.h>

#include "tessera/rendezvous.hpp"

namespace tessera::local {
namespace {

struct HubAddress {
  int64_t process_id;
  uint64_t code;  // where this function is loaded: differs between processes even when their ids (in containers) do not
  uint64_t hub;
};

// Added to the counter of claims when coordinate 0 gives up: who claims after that knows that the hub may be gone.
constexpr int64_t kClosed = int64_t{1} << 32;

uint64_t address_of_code() {
  return reinterpret_cast<uint64_t>(&address_of_code);
}

HubReference make_hub(const KeyValue& store, const std::string& prefix, const Member& member,
                      const Deadline& deadline) {
  HubReference hub(new Hub(member.num_ranks));
  const auto drop_missing = [&](int64_t num_claims) {
    hub->release(member.num_ranks - 1 - static_cast<int>(num_claims));
  };
  try {
    store.set(prefix + "/hub/0",
              to_bytes(HubAddress{getpid(), address_of_code(), reinterpret_cast<uint64_t>(hub.get())}));
  } catch (...) {
    drop_missing(0);
    throw;
  }
  try {
    hub->attach(member, deadline);
  } catch (...) {
    // If the store is gone too, nobody knows who holds the hub, and it stays.
    drop_missing(store.add(prefix + "/claims", kClosed) - kClosed);
    throw;
  }
  return hub;
}

HubReference claim_hub(const KeyValue& store, const std::string& prefix, const Member& member,
                       const Deadline& deadline) {
  const std::atomic<bool> never_aborted{false};
  const auto address =
      from_bytes<HubAddress>(wait_for_rank(store, prefix + "/hub", member, 0, deadline, never_aborted, "create"));
  const std::string where = member.where() + ": create ";
  if (address.process_id != getpid() || address.code != address_of_code())
    throw Error(TSR_E_FAILED_PRECONDITION,
                where + "runs in process " + std::to_string(getpid()) + " and rank " +
                    std::to_string(member.world_rank(0)) + " in process " + std::to_string(address.process_id) +
                    "; the ranks of local-comm are threads of one process, use another communicator");
  if (store.add(prefix + "/claims", 1) > kClosed)
    throw Error(TSR_E_DEADLINE, where + "came after rank " + std::to_string(member.world_rank(0)) + " had given up",
                member.world_rank());
  HubReference hub(reinterpret_cast<Hub*>(address.hub));
  hub->attach(member, deadline);
  return hub;
}

}  // namespace

HubReference join_hub(const KeyValue& store, const std::string& prefix, const Member& member) {
  const Deadline deadline(member.timeout_ms);
  return member.rank == 0 ? make_hub(store, prefix, member, deadline) : claim_hub(store, prefix, member, deadline);
}

}  // namespace tessera::local
