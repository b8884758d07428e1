// TCP sockets that never block, without gloo. Functions throw Error only where they say so.
#pragma once

#include <cstddef>

#include "gloo-comm/address.h"
#include "gloo-comm/descriptor.h"

namespace tessera::gloo_comm {

/// Listens on a port that the system chooses and puts it into `address`. UNAVAILABLE when the address is not this
/// machine's.
Descriptor listen_at(Address& address);

/// The next connection; none when there is no more, or no descriptor for it (errno says which).
Descriptor accept_from(const Descriptor& listener);

/// Begins to connect; errno says why there is none.
Descriptor start_connecting(const Address& target);
/// Of a socket that was connecting and is now writable: 0, or why it is not connected.
int connect_error(const Descriptor& socket);

/// A message of known length while it is received: nothing after it is taken from the connection.
class Inbox {
 public:
  enum class Result { kPartial, kComplete, kClosed };
  /// Takes what has come of the `num_bytes` at `data`, which stay the same until the message is complete.
  Result receive(const Descriptor& socket, void* data, size_t num_bytes);

 private:
  size_t num_received_ = 0;
};

/// Sends a short message, for which the connection has room. False when the connection is lost.
bool send_all(const Descriptor& socket, const void* data, size_t num_bytes);

}  // namespace tessera::gloo_comm
