#include "gloo-comm/connections/listen_address.h"

#include <sys/stat.h>

#include <fstream>

#include "tessera/rendezvous.hpp"

namespace tessera::gloo_comm {
namespace {

Address first_choice(const ListenOptions& options) {
  if (!options.interface.empty()) return interface_address(options.interface);
  if (!options.store_host.empty())
    if (const auto route = address_towards(options.store_host)) return *route;
  if (const auto named = host_name_address()) return *named;
  throw Error(TSR_E_FAILED_PRECONDITION,
              "[gloo-comm] this machine has no address that other machines could reach: no route leads to the "
              "store's host" +
                  (options.store_host.empty() ? "" : " " + options.store_host) +
                  ", and its own name has a loopback address or none; name a network interface with --gloo.interface");
}

[[noreturn]] void refuse_loopback(const ListenOptions& options, const Member& member, int peer) {
  const std::string others = routable_interfaces();
  throw Error(TSR_E_INVALID_ARGUMENT,
              member.where() + ": --gloo.interface: the addresses of \"" + options.interface +
                  "\" can be reached from this machine only, and rank " + std::to_string(member.world_rank(peer)) +
                  " is on another one; name an interface that it can reach" +
                  (others.empty() ? "" : ": this machine has " + others),
              member.world_rank());
}

}  // namespace

Network this_network() {
  Network network;
  std::ifstream("/proc/sys/kernel/random/boot_id").get(network.boot.data(), network.boot.size());
  struct stat network_namespace {};
  if (::stat("/proc/self/ns/net", &network_namespace) == 0) network.network_namespace = network_namespace.st_ino;
  return network;
}

Address choose_address(const ListenOptions& options, const Member& member, const KeyValue& store,
                       const std::string& prefix, const Deadline& deadline, const CancelFlag& cancel) {
  if (options.interface.empty() && (options.is_local || member.num_ranks == 1)) return loopback_address();
  const Address own = first_choice(options);
  if (options.is_local || member.num_ranks == 1) return own;
  const std::string keys = prefix + "/route";
  const Network network = this_network();
  store.set(keys + "/" + std::to_string(member.rank), to_bytes(AddressOffer{own, network}));
  if (!own.is_loopback()) return own;
  for (int rank = 0; rank < member.num_ranks; ++rank) {
    const auto seen = from_bytes<AddressOffer>(wait_for_rank(store, keys, member, rank, deadline, cancel, "create"));
    if (!options.interface.empty()) {
      if (seen.network != network) refuse_loopback(options, member, rank);
    } else if (!seen.address.is_loopback()) {
      if (const auto route = address_towards(seen.address)) return *route;
    }
  }
  return own;
}

}  // namespace tessera::gloo_comm
