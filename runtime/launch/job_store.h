// A rank's way into its job's key-value store.
#pragma once

#include <memory>

#include "base/log.h"
#include "launch/key_value_store.h"
#include "launch/rank_environment.h"
#include "launch/tcp_store.h"

namespace tessera::host {

/// Keep it until the rank ends: on the rank that serves, others use it.
struct JobStore {
  std::unique_ptr<TcpStoreServer> server;  ///< on the rank that serves, else null
  std::shared_ptr<KeyValueStore> store;
};

/// Starts the server where this rank must, and joins. A world of one rank gets a store in memory. The server listens as
/// listen_address says; when it cannot, since another store has the port, the rank joins that one as any other process,
/// and learns there whose it is. `events` are those of the server, if this rank makes it; `reply_ms` is the client's.
/// Throws what TcpStoreServer and TcpStoreClient do, after `timeout_ms`.
JobStore join_job(const RankEnvironment& environment, int64_t timeout_ms, const Log& log,
                  const StoreEvents& events = {}, int64_t reply_ms = kReplyTimeoutMs);

/// The address for the store's server on the rank that serves: loopback when all ranks are on this machine; else the
/// address that store_host has, if it is one of this machine's; else (a name for the loopback address, as Debian gives
/// the host's own, or an address that is translated on its way here) all interfaces, which is logged.
std::string listen_address(const RankEnvironment& environment, const Log& log);

}  // namespace tessera::host
