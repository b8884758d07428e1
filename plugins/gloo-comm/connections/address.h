// IPv4 and IPv6 addresses, and those that this machine has: of an interface, of a route, of its name.
#pragma once

#include <sys/socket.h>

#include <optional>
#include <string>

namespace tessera::gloo_comm {

/// An IPv4 or IPv6 address and a port. Stored as bytes.
struct Address {
  sockaddr_storage storage{};
  socklen_t num_bytes = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  bool is_loopback() const;
  /// "10.0.0.1:4711", "[fe80::1]:4711"; without port when that is 0.
  std::string text() const;
};

Address loopback_address();

/// The first address of a network interface ("eth0"), IPv4 before IPv6. NOT_FOUND lists the existing interfaces.
Address interface_address(const std::string& interface);

/// The interfaces with an address that other machines could reach: "eth0, ib0"; or "".
std::string routable_interfaces();

/// The source address of this machine's route to `target`, or nothing without a route. Sends nothing.
std::optional<Address> address_towards(const Address& target);
/// The same for a host's name or address; also none when the name has no address.
std::optional<Address> address_towards(const std::string& host);

/// The address of this machine's name, unless it is a loopback address.
std::optional<Address> host_name_address();

}  // namespace tessera::gloo_comm
