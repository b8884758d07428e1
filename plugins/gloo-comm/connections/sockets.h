// Non-blocking TCP sockets, independent of gloo. Functions throw Error only where stated.
#pragma once

#include <cstddef>

#include "gloo-comm/connections/address.h"
#include "gloo-comm/connections/descriptor.h"

namespace tessera::gloo_comm {

/// Listens on a port that the system chooses and puts it into `address`. UNAVAILABLE when the address is not this
/// machine's.
Descriptor listen_at(Address& address);

/// The next connection; none if none is pending, or if no descriptor is left for it (errno tells which).
Descriptor accept_from(const Descriptor& listener);

/// Starts to connect; an empty descriptor on failure, with errno.
Descriptor start_connecting(const Address& target);
/// Of a socket that was connecting and is now writable: 0, or the errno of the failure.
int connect_error(const Descriptor& socket);

/// A message of known length while it is received; never reads past its end.
class Inbox {
 public:
  enum class Result { kPartial, kComplete, kClosed };
  /// Receives what has arrived of the `num_bytes` for `data`; the arguments stay the same until the message is
  /// complete.
  Result receive(const Descriptor& socket, void* data, size_t num_bytes);

 private:
  size_t num_received_ = 0;
};

/// Sends a short message, for which the socket's buffer has room. False when the connection is lost.
bool send_all(const Descriptor& socket, const void* data, size_t num_bytes);

}  // namespace tessera::gloo_comm
