#include "gloo-comm/address.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>

#include "tessera/error.hpp"

namespace tessera::gloo_comm {
namespace {

using Attr = ::gloo::transport::tcp::attr;

bool is_internet(const sockaddr* address) {
  return address && (address->sa_family == AF_INET || address->sa_family == AF_INET6);
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24) == 127;
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

Attr to_attr(const sockaddr* address) {
  Attr attr;
  attr.ai_family = address->sa_family;
  attr.ai_socktype = SOCK_STREAM;
  attr.ai_protocol = 0;
  attr.ai_addrlen = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  attr.ai_addr = {};
  std::memcpy(&attr.ai_addr, address, static_cast<size_t>(attr.ai_addrlen));
  return attr;
}

Attr interface_address(const std::string& name) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0)
    throw Error(TSR_E_INTERNAL, std::string("[gloo-comm] cannot list the network interfaces: ") + std::strerror(errno));
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  const ifaddrs* found = nullptr;
  std::string names;
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!is_internet(entry->ifa_addr)) continue;
    const bool is_ipv4 = entry->ifa_addr->sa_family == AF_INET;
    if (is_ipv4) names += (names.empty() ? "" : ", ") + std::string(entry->ifa_name);
    if (name == entry->ifa_name && (!found || (is_ipv4 && found->ifa_addr->sa_family != AF_INET))) found = entry;
  }
  if (!found)
    throw Error(TSR_E_NOT_FOUND,
                "[gloo-comm] no network interface \"" + name + "\" has an address; there are " + names);
  return to_attr(found->ifa_addr);
}

Attr host_name_address() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0)
    throw Error(TSR_E_INTERNAL, std::string("[gloo-comm] this machine has no host name: ") + std::strerror(errno));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int status = getaddrinfo(name.data(), nullptr, &hints, &list);
  const std::string what = "[gloo-comm] the host name " + std::string(name.data());
  const std::string advice = "; name the network interface with --gloo.interface";
  if (status != 0) throw Error(TSR_E_FAILED_PRECONDITION, what + " has no address: " + gai_strerror(status) + advice);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  for (const addrinfo* entry = list; entry; entry = entry->ai_next)
    if (is_internet(entry->ai_addr) && !is_loopback(entry->ai_addr)) return to_attr(entry->ai_addr);
  throw Error(TSR_E_FAILED_PRECONDITION,
              what + " has a loopback address only, which other machines cannot reach" + advice);
}

}  // namespace

Attr listen_address(bool is_local, const std::string& interface) {
  if (!interface.empty()) return interface_address(interface);
  if (!is_local) return host_name_address();
  sockaddr_in loopback{};
  loopback.sin_family = AF_INET;
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return to_attr(reinterpret_cast<const sockaddr*>(&loopback));
}

}  // namespace tessera::gloo_comm
