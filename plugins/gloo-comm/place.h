#pragma once

#include <array>
#include <atomic>

#include "gloo-comm/address.h"
#include "tessera/collective.hpp"
#include "tessera/key_value.hpp"

namespace tessera::gloo_comm {

/// What decides where a member listens.
struct Place {
  bool is_local = true;    ///< all ranks of the job are on this machine
  std::string interface;   ///< the network interface to use; empty: choose
  std::string store_host;  ///< where the job's store is; empty: not known
};

/// Processes for which this is equal reach one another at their loopback addresses: one system, one network namespace.
/// Travels through the store as it is; all zero where the system does not say.
struct Network {
  std::array<char, 40> boot{};
  uint64_t name_space = 0;
  bool operator==(const Network&) const = default;
};
Network own_network();

/// What a member tells the others before they choose.
struct View {
  Address address;
  Network network;
};

/// Where this member listens: the interface's address if one is named, loopback if all ranks are local, else the
/// address of the route to the store's host. Where that is loopback, because the store is on this machine, it is the
/// address of the route to the first member that has another one; they tell their View under "<prefix>/route/<rank>".
/// If none has, all of them are loopback's. Without a route it is the address of the host's name.
/// NOT_FOUND: no such interface. INVALID_ARGUMENT: it is the loopback, and a member is on another machine.
/// FAILED_PRECONDITION: no address that others could reach. DEADLINE, ABORTED as wait_for_rank().
Address choose_address(const Place& place, const Member& member, const KeyValue& store, const std::string& prefix,
                       const Deadline& deadline, const std::atomic<bool>& aborted);

}  // namespace tessera::gloo_comm
