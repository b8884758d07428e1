// The choice of the address on which a member listens, and the network by which members find out whether loopback is
// enough.
#pragma once

#include <array>

#include "gloo-comm/connections/address.h"
#include "tessera/collective.hpp"
#include "tessera/rendezvous.hpp"

namespace tessera::gloo_comm {

/// Decides the address on which a member listens.
struct ListenOptions {
  bool is_local = true;    ///< all ranks of the job are on this machine
  std::string interface;   ///< the network interface to use; empty: choose
  std::string store_host;  ///< host of the job's store; empty: unknown
};

/// Identifies a network namespace of one machine: processes with equal values reach one another at loopback addresses.
/// Stored as bytes; all zero where the system does not tell.
struct Network {
  std::array<char, 40> boot{};
  uint64_t network_namespace = 0;
  bool operator==(const Network&) const = default;
};
Network this_network();

/// What a member publishes before the group chooses.
struct AddressOffer {
  Address address;
  Network network;
};

/// The address on which this member listens: the interface's if one is named, loopback if all ranks are local, else the
/// source address of the route to the store's host. If that is loopback, because the store is on this machine, it is
/// the source address of the route to the first member with another address, found by the AddressOffers under
/// "<prefix>/route/<rank>"; if all are loopback, loopback. Without a route it is the address of the host's name.
/// NOT_FOUND: no such interface. INVALID_ARGUMENT: it is the loopback interface, and a member is on another machine.
/// FAILED_PRECONDITION: this machine has no address that others could reach. DEADLINE, ABORTED as wait_for_rank().
Address choose_address(const ListenOptions& options, const Member& member, const KeyValue& store,
                       const std::string& prefix, const Deadline& deadline, const CancelFlag& cancel);

}  // namespace tessera::gloo_comm
