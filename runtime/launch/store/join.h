// The client's side of the key-value store's handshake.
#pragma once

#include <cstdint>
#include <string>

#include "launch/participant.h"
#include "launch/socket.h"

namespace tessera::host {

/// A connection on which both sides have proved that they know the secret. Retries until the deadline while no server
/// listens (unless `refused` means that the store is gone) and when it is disconnected before the server answers.
/// `on_retry` is told while no server can be reached. Throws what TcpStoreClient's constructor throws.
Socket join_store(const std::string& host, uint16_t port, const std::string& secret, const Participant& who,
                  int64_t timeout_ms, Refused refused = Refused::not_yet, const OnRetry& on_retry = {});

}  // namespace tessera::host
