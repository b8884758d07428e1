// listen_address of job_store.h: the narrowest address that all ranks can reach.
//
//     all ranks on this machine                  127.0.0.1, or the address of this machine that was given
//     MASTER_ADDR is this machine's, 10.0.0.5    10.0.0.5
//     MASTER_ADDR is 127.0.1.1 here, or NAT      0.0.0.0: only the proof of the secret keeps strangers out

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <vector>

#include "base/concat.h"
#include "launch/job_store.h"
#include "launch/socket.h"

namespace tessera::host {
namespace {

struct Address {
  std::string text;  // numeric
  bool is_loopback = false;
  bool is_own = false;  // of this machine
};

// Only an address of this machine can be bound to.
bool is_own(const addrinfo& address) {
  const Socket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return socket.fd() >= 0 && ::bind(socket.fd(), address.ai_addr, address.ai_addrlen) == 0;
}

// Empty when the name cannot be resolved here.
std::vector<Address> addresses_of(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* entry = list; entry; entry = entry->ai_next) {
    char text[NI_MAXHOST];
    if (::getnameinfo(entry->ai_addr, entry->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
      addresses.push_back({text, is_loopback(*entry->ai_addr), is_own(*entry)});
  }
  return addresses;
}

}  // namespace

std::string listen_address(const RankEnvironment& environment, const Log& log) {
  const std::vector<Address> addresses = addresses_of(environment.store_host);
  for (const Address& address : addresses)
    if (address.is_own && (environment.is_local() || !address.is_loopback)) return address.text;
  if (environment.is_local()) return "127.0.0.1";
  const std::string& host = environment.store_host;
  const std::string reason =
      addresses.empty() ? concat(host, " cannot be resolved here")
      : addresses.front().is_loopback
          ? concat(host, " is ", addresses.front().text, " here, which other machines cannot reach")
          : concat("this machine does not have the address ", addresses.front().text);
  log.info("the key-value store listens on all interfaces: ", reason);
  return "0.0.0.0";
}

}  // namespace tessera::host
