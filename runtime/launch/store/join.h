// The client's side of the greeting of the key-value store.
#pragma once

#include <cstdint>
#include <string>

#include "launch/participant.h"
#include "launch/socket.h"

namespace tessera::host {

/// A connection that both sides have proved. Tries again, until the deadline, while nobody listens (unless `refused`
/// says that the store is gone then) and when it is dropped before the server answers. Throws what TcpStoreClient's
/// constructor throws.
Socket join_store(const std::string& host, uint16_t port, const std::string& secret, const Participant& who,
                  int64_t timeout_ms, Refused refused = Refused::not_yet);

}  // namespace tessera::host
