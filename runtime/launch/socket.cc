// All sockets are non-blocking; reads and writes poll until their deadline. Addresses are resolved again at each
// attempt to connect, since the name of a host that is starting may not be known yet.

#include "launch/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

using std::chrono::milliseconds;

// Between attempts to connect. A server that starts is found this soon, and one that is not there costs little.
constexpr milliseconds kRetryPause(50);

// What an address may take in the first round; twice that in the next, and so on. One that drops packets, as IPv6 does
// in some networks, must not use up the time of the others (RFC 8305 has them overlap), nor keep the reason to itself.
constexpr milliseconds kFirstAttempt(2000);

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses resolve(const std::string& host, uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0)
    throw Error(TSR_E_UNAVAILABLE, concat("cannot resolve the address ", host, ": ", ::gai_strerror(error)));
  return Addresses(list);
}

Socket open_socket(const addrinfo& address) {
  return Socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// True when the socket is ready (or broken, which the next call reports).
bool wait_for(int fd, short events, Deadline deadline) {
  while (true) {
    pollfd wanted{fd, events, 0};
    const int ready = ::poll(&wanted, 1, remaining_ms(deadline));
    if (ready > 0) return true;
    if (ready == 0 && remaining_ms(deadline) == 0) return false;  // else it was the longest wait of remaining_ms
    if (ready < 0 && errno != EINTR)
      throw Error(TSR_E_UNAVAILABLE, concat("waiting for a connection failed: ", std::strerror(errno)));
  }
}

// 0 or errno.
// A connect that is under way has ended when the socket is writable; whether it succeeded is in SO_ERROR.
int try_connect(const Socket& socket, const addrinfo& address, Deadline deadline) {
  if (socket.fd() < 0) return errno;
  if (::connect(socket.fd(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!wait_for(socket.fd(), POLLOUT, deadline)) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

// No retry mends it. Of IPv4 alone: where IPv6 is off, ::1 cannot be reached, and "localhost" means both.
void refuse_if_loopback_is_down(const addrinfo& address, int error) {
  if (error != ENETUNREACH || address.ai_family != AF_INET || !is_loopback(*address.ai_addr)) return;
  throw Error(TSR_E_FAILED_PRECONDITION,
              concat("cannot reach 127.0.0.1, this machine's own address: ", std::strerror(error),
                     "; bring the loopback interface up (ip link set lo up)"));
}

// If no server listens on a port, the kernel may choose that port for the connecting socket, which then connects to
// itself.
bool is_own_echo(const Socket& socket) {
  sockaddr_storage here{}, there{};
  socklen_t here_bytes = sizeof here, there_bytes = sizeof there;
  return ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&here), &here_bytes) == 0 &&
         ::getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&there), &there_bytes) == 0 &&
         here_bytes == there_bytes && std::memcmp(&here, &there, here_bytes) == 0;
}

[[noreturn]] void fail_transfer(const char* verb) {
  throw Error(TSR_E_UNAVAILABLE, concat("the connection broke while ", verb, ": ", std::strerror(errno)));
}

bool must_wait() {
  return errno == EAGAIN || errno == EWOULDBLOCK;
}

}  // namespace

Deadline deadline_in(int64_t timeout_ms) {
  return std::chrono::steady_clock::now() + milliseconds(timeout_ms);
}

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

int remaining_ms(Deadline deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, kLongestWaitMs));
}

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Socket::Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

// SO_REUSEADDR: the port of a job that has just ended has connections in TIME_WAIT, which would refuse it for a minute.
Socket Socket::listen(const std::string& address, uint16_t port) {
  const Addresses list = resolve(address, port, AI_PASSIVE);
  Socket socket = open_socket(*list);
  const int one = 1;
  if (socket.fd() < 0 || ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
      ::bind(socket.fd(), list->ai_addr, list->ai_addrlen) != 0 || ::listen(socket.fd(), SOMAXCONN) != 0)
    throw Error(errno == EADDRINUSE ? TSR_E_ALREADY_EXISTS : TSR_E_UNAVAILABLE,
                concat("cannot listen on ", address, " port ", port, ": ", std::strerror(errno)));
  return socket;
}

// TCP_NODELAY, here and in accept(): requests are small, and the next one waits for the answer to the last.
Socket Socket::connect(const std::string& host, uint16_t port, Deadline deadline, Refused refused,
                       const OnRetry& on_retry) {
  int error = ETIMEDOUT;
  std::string unresolved, reason;
  milliseconds attempt = kFirstAttempt;
  do {
    Addresses list;
    try {
      list = resolve(host, port, 0);
      unresolved.clear();
    } catch (const Error& of_name) {
      if (refused == Refused::no_more) throw;
      unresolved = of_name.what();
    }
    for (const addrinfo* address = list.get(); address; address = address->ai_next) {
      const Deadline until = std::min(deadline, std::chrono::steady_clock::now() + attempt);
      Socket socket = open_socket(*address);
      error = try_connect(socket, *address, until);
      if (error == 0 && is_own_echo(socket)) error = ECONNREFUSED;
      refuse_if_loopback_is_down(*address, error);
      if (error != 0) continue;
      const int one = 1;
      ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
      return socket;
    }
    reason = unresolved.empty() ? concat("no server answers at ", host, " port ", port, ": ", std::strerror(error))
                                : unresolved;
    if (error == ECONNREFUSED && refused == Refused::no_more) break;
    if (on_retry) on_retry(reason);
    attempt *= 2;
    std::this_thread::sleep_for(std::min(kRetryPause, milliseconds(remaining_ms(deadline))));
  } while (std::chrono::steady_clock::now() < deadline);
  throw Error(unresolved.empty() ? TSR_E_DEADLINE : TSR_E_UNAVAILABLE, reason);
}

uint16_t Socket::local_port() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length) != 0) fail_transfer("asking for its port");
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

Socket Socket::accept() const {
  Socket socket(::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const int one = 1;
  if (socket.fd() >= 0) ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return socket;
}

// The deadline is for all bytes together, so a sender of one byte a second does not hold its reader for ever.
void Socket::read(void* data, size_t num_bytes, Deadline deadline) const {
  for (size_t done = 0; done < num_bytes;) {
    const ssize_t got = ::recv(fd_, static_cast<char*>(data) + done, num_bytes - done, 0);
    if (got > 0) {
      done += static_cast<size_t>(got);
    } else if (got == 0) {
      throw Error(TSR_E_UNAVAILABLE, "the other side closed the connection");
    } else if (must_wait()) {
      if (!wait_for(fd_, POLLIN, deadline)) throw Error(TSR_E_DEADLINE, "timed out reading from the other side");
    } else if (errno != EINTR) {
      fail_transfer("reading");
    }
  }
}

// MSG_NOSIGNAL: a connection that the other side has closed is an error here, not a SIGPIPE that ends the process.
void Socket::write(const void* data, size_t num_bytes, Deadline deadline) const {
  for (size_t done = 0; done < num_bytes;) {
    const ssize_t put = ::send(fd_, static_cast<const char*>(data) + done, num_bytes - done, MSG_NOSIGNAL);
    if (put >= 0) {
      done += static_cast<size_t>(put);
    } else if (must_wait()) {
      if (!wait_for(fd_, POLLOUT, deadline)) throw Error(TSR_E_DEADLINE, "timed out writing to the other side");
    } else if (errno != EINTR) {
      fail_transfer("writing");
    }
  }
}

}  // namespace tessera::host
