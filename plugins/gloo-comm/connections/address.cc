#include "gloo-comm/connections/address.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>

#include "gloo-comm/connections/descriptor.h"
#include "tessera/error.hpp"

namespace tessera::gloo_comm {
namespace {

bool is_internet(const sockaddr* address) {
  return address && (address->sa_family == AF_INET || address->sa_family == AF_INET6);
}

Address to_address(const sockaddr* address) {
  Address result;
  result.num_bytes = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::memcpy(&result.storage, address, result.num_bytes);
  return result;
}

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// Empty when the host has none.
AddressList addresses_of(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0) list = nullptr;
  return AddressList(list, &freeaddrinfo);
}

using InterfaceList = std::unique_ptr<ifaddrs, decltype(&freeifaddrs)>;

InterfaceList all_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0)
    throw Error(TSR_E_INTERNAL, std::string("[gloo-comm] cannot list the network interfaces: ") + std::strerror(errno));
  return InterfaceList(list, &freeifaddrs);
}

void set_port(Address& address, uint16_t port) {
  if (address.storage.ss_family == AF_INET)
    reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port = htons(port);
  else
    reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_port = htons(port);
}

}  // namespace

bool Address::is_loopback() const {
  if (storage.ss_family == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr) >> 24) == 127;
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr);
}

std::string Address::text() const {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (getnameinfo(get(), num_bytes, host.data(), host.size(), port.data(), port.size(),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "no address";
  const std::string name = storage.ss_family == AF_INET ? host.data() : "[" + std::string(host.data()) + "]";
  return port[0] == '0' ? name : name + ":" + port.data();
}

Address loopback_address() {
  sockaddr_in loopback{};
  loopback.sin_family = AF_INET;
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return to_address(reinterpret_cast<const sockaddr*>(&loopback));
}

Address interface_address(const std::string& interface) {
  const InterfaceList list = all_interfaces();
  const ifaddrs* found = nullptr;
  std::string names;
  for (const ifaddrs* entry = list.get(); entry; entry = entry->ifa_next) {
    if (!is_internet(entry->ifa_addr)) continue;
    const bool is_ipv4 = entry->ifa_addr->sa_family == AF_INET;
    if (is_ipv4) names += (names.empty() ? "" : ", ") + std::string(entry->ifa_name);
    if (interface == entry->ifa_name && (!found || (is_ipv4 && found->ifa_addr->sa_family != AF_INET))) found = entry;
  }
  if (!found)
    throw Error(TSR_E_NOT_FOUND, "[gloo-comm] --gloo.interface: no network interface \"" + interface +
                                     "\" has an address on this machine; it has " + names);
  return to_address(found->ifa_addr);
}

std::string routable_interfaces() {
  const InterfaceList list = all_interfaces();
  std::string names;
  for (const ifaddrs* entry = list.get(); entry; entry = entry->ifa_next)
    if (entry->ifa_addr && entry->ifa_addr->sa_family == AF_INET && !to_address(entry->ifa_addr).is_loopback())
      names += (names.empty() ? "" : ", ") + std::string(entry->ifa_name);
  return names;
}

std::optional<Address> address_towards(const Address& target) {
  const Descriptor socket(::socket(target.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  Address to = target;
  constexpr uint16_t kAnyPort = 9;
  set_port(to, kAnyPort);
  Address own;
  own.num_bytes = sizeof own.storage;
  if (!socket || ::connect(socket.get(), to.get(), to.num_bytes) != 0 ||
      getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own.storage), &own.num_bytes) != 0)
    return std::nullopt;
  set_port(own, 0);
  return own;
}

std::optional<Address> address_towards(const std::string& host) {
  const AddressList list = addresses_of(host);
  for (const addrinfo* entry = list.get(); entry; entry = entry->ai_next)
    if (is_internet(entry->ai_addr))
      if (const auto own = address_towards(to_address(entry->ai_addr))) return own;
  return std::nullopt;
}

std::optional<Address> host_name_address() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return std::nullopt;
  const AddressList list = addresses_of(name.data());
  for (const addrinfo* entry = list.get(); entry; entry = entry->ai_next)
    if (is_internet(entry->ai_addr) && !to_address(entry->ai_addr).is_loopback()) return to_address(entry->ai_addr);
  return std::nullopt;
}

}  // namespace tessera::gloo_comm
