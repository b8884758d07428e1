#include "gloo-comm/place.h"

#include <sys/stat.h>

#include <fstream>

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

[[noreturn]] void refuse_loopback(const Place& place, const Member& member, int peer) {
  const std::string others = routable_interfaces();
  throw Error(TSR_E_INVALID_ARGUMENT,
              member.where() + ": --gloo.interface: the addresses of \"" + place.interface +
                  "\" lead to this machine only, and rank " + std::to_string(member.world_rank(peer)) +
                  " is on another one; name an interface that leads there" +
                  (others.empty() ? "" : ": this machine has " + others),
              member.world_rank());
}

}  // namespace

Network own_network() {
  Network network;
  std::ifstream("/proc/sys/kernel/random/boot_id").get(network.boot.data(), network.boot.size());
  struct stat name_space {};
  if (::stat("/proc/self/ns/net", &name_space) == 0) network.name_space = name_space.st_ino;
  return network;
}

Address choose_address(const Place& place, const Member& member, const KeyValue& store, const std::string& prefix,
                       const Deadline& deadline, const std::atomic<bool>& aborted) {
  if (place.interface.empty() && (place.is_local || member.num_ranks == 1)) return loopback_address();
  const Address own = own_view(place);
  if (place.is_local || member.num_ranks == 1) return own;
  const std::string keys = prefix + "/route";
  const Network network = own_network();
  store.set(keys + "/" + std::to_string(member.rank), to_bytes(View{own, network}));
  if (!own.is_loopback()) return own;
  for (int rank = 0; rank < member.num_ranks; ++rank) {
    const auto seen = from_bytes<View>(wait_for_rank(store, keys, member, rank, deadline, aborted, "create"));
    if (!place.interface.empty()) {
      if (seen.network != network) refuse_loopback(place, member, rank);
    } else if (!seen.address.is_loopback()) {
      if (const auto route = address_towards(seen.address)) return *route;
    }
  }
  return own;
}

}  // namespace tessera::gloo_comm
