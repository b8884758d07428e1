// How a rank reaches its job's key-value store. Implemented in job_store.cc, listen_address.cc.
#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "launch/key_value_store.h"
#include "launch/rank_environment.h"
#include "launch/tcp_store.h"

namespace tessera::host {

/// Keep it until the rank ends: on the rank that serves, the others use it too.
struct JobStore {
  std::unique_ptr<TcpStoreServer> server;  ///< on the rank that serves, else null
  std::shared_ptr<KeyValueStore> store;
};

/// Starts the server if this rank must serve, and joins. A world of one rank gets a store in memory. The server listens
/// on listen_address(); if another store has that port, the rank joins it like any other process, and is told there
/// which job it belongs to. `events` are for the server, if this rank starts it; `reply_ms` is for the client. Throws
/// what TcpStoreServer and TcpStoreClient throw, after `timeout_ms`; ALREADY_EXISTS, where the port stays taken and no
/// store answers there, after 5 s at most.
JobStore join_job(const RankEnvironment& environment, int64_t timeout_ms, const Log& log,
                  const StoreEvents& events = {}, int64_t reply_ms = kReplyTimeoutMs);

/// The address that the store's server listens on: loopback when all ranks are on this machine; else the address of
/// store_host, if this machine has it; else all interfaces, which is logged. The last happens when the name means
/// loopback, as the host's own name does on Debian, or when addresses are translated on the way here.
std::string listen_address(const RankEnvironment& environment, const Log& log);

}  // namespace tessera::host
