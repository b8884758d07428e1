// Peers wait for small headers and signals, so Nagle's algorithm is off on every socket. CLOEXEC, since a forked child
// that kept a connection would keep the peer from noticing this process's end.
#include "gloo-comm/connections/sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cerrno>
#include <cstring>

#include "tessera/error.hpp"

namespace tessera::gloo_comm {
namespace {

constexpr int kStream = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

void send_at_once(const Descriptor& socket) {
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

Descriptor listen_at(Address& address) {
  Descriptor listener(::socket(address.storage.ss_family, kStream, 0));
  auto* bound = reinterpret_cast<sockaddr*>(&address.storage);
  if (!listener || ::bind(listener.get(), bound, address.num_bytes) != 0 || ::listen(listener.get(), SOMAXCONN) != 0 ||
      getsockname(listener.get(), bound, &address.num_bytes) != 0)
    throw Error(TSR_E_UNAVAILABLE, "[gloo-comm] cannot listen at " + address.text() + ": " + std::strerror(errno));
  return listener;
}

Descriptor accept_from(const Descriptor& listener) {
  for (;;) {
    Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket && (errno == ECONNABORTED || errno == EINTR || errno == EPROTO)) continue;
    if (socket) send_at_once(socket);
    return socket;
  }
}

Descriptor start_connecting(const Address& target) {
  Descriptor socket(::socket(target.storage.ss_family, kStream, 0));
  if (!socket) return socket;
  send_at_once(socket);
  if (::connect(socket.get(), target.get(), target.num_bytes) == 0 || errno == EINPROGRESS || errno == EINTR)
    return socket;
  const int reason = errno;
  socket.reset();
  errno = reason;
  return socket;
}

int connect_error(const Descriptor& socket) {
  int error = 0;
  socklen_t num_bytes = sizeof error;
  return getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &num_bytes) == 0 ? error : errno;
}

// Never more than the message: the bytes that follow are gloo's, and must stay in the socket.
Inbox::Result Inbox::receive(const Descriptor& socket, void* data, size_t num_bytes) {
  while (num_received_ < num_bytes) {
    const ssize_t got =
        ::recv(socket.get(), static_cast<std::byte*>(data) + num_received_, num_bytes - num_received_, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Result::kPartial;
    if (got <= 0) return Result::kClosed;
    num_received_ += static_cast<size_t>(got);
  }
  num_received_ = 0;
  return Result::kComplete;
}

bool send_all(const Descriptor& socket, const void* data, size_t num_bytes) {
  for (;;) {
    const ssize_t sent = ::send(socket.get(), data, num_bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    return sent == static_cast<ssize_t>(num_bytes);
  }
}

}  // namespace tessera::gloo_comm
