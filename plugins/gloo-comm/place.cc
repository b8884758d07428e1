#include "gloo-comm/place.h"

#include "tessera/rendezvous.hpp"

namespace tessera::gloo_comm {
namespace {

Address own_view(const Place& place) {
  if (!place.interface.empty()) return interface_address(place.interface);
  if (!place.store_host.empty())
    if (const auto route = address_towards(place.store_host)) return *route;
  if (const auto named = host_name_address()) return *named;
  throw Error(TSR_E_FAILED_PRECONDITION,
              "[gloo-comm] this machine has no address that other machines could reach: there is no route to the "
              "store's host" +
                  (place.store_host.empty() ? "" : " " + place.store_host) +
                  ", and its own name has a loopback address or none; name a network interface with --gloo.interface");
}

}  // namespace

Address choose_address(const Place& place, const Member& member, const KeyValue& store, const std::string& prefix,
                       const Deadline& deadline, const std::atomic<bool>& aborted) {
  if (place.interface.empty() && (place.is_local || member.num_ranks == 1)) return loopback_address();
  const Address own = own_view(place);
  if (place.is_local || member.num_ranks == 1) return own;
  const std::string keys = prefix + "/route";
  store.set(keys + "/" + std::to_string(member.rank), to_bytes(own));
  if (!place.interface.empty() || !own.is_loopback()) return own;
  for (int rank = 0; rank < member.num_ranks; ++rank) {
    const auto seen = from_bytes<Address>(wait_for_rank(store, keys, member, rank, deadline, aborted, "create"));
    if (seen.is_loopback()) continue;
    if (const auto route = address_towards(seen)) return *route;
  }
  return own;
}

}  // namespace tessera::gloo_comm
