// A rank's way into its job's key-value store.
#pragma once

#include <memory>

#include "launch/key_value_store.h"
#include "launch/rank_environment.h"
#include "launch/tcp_store.h"
#include "observe/log.h"

namespace tessera {

/// Keep it until the rank ends: on the rank that serves, others use it.
struct JobStore {
  std::unique_ptr<TcpStoreServer> server;  ///< on the rank that serves, else null
  std::shared_ptr<KeyValueStore> store;
};

/// Starts the server where this rank must, and joins. A world of one rank gets a store in memory. The server listens on
/// loopback when all ranks are on this machine, else on all interfaces, which is logged when the job has no secret of
/// its own. Throws DEADLINE or UNAVAILABLE after `timeout_ms`.
JobStore join_job(const RankEnvironment& environment, int64_t timeout_ms, const Log& log);

}  // namespace tessera
