#include "launch/job_store.h"

#include <algorithm>
#include <chrono>

#include "observe/text.h"
#include "tessera/error.hpp"

namespace tessera {
namespace {

// For what has the port of our store to say what it is.
constexpr int64_t kOtherStoreMs = 5'000;

std::shared_ptr<KeyValueStore> join(const RankEnvironment& environment, int64_t timeout_ms) {
  return std::make_shared<TcpStoreClient>(environment.store_host, environment.store_port, environment.secret,
                                          this_process(environment.rank), timeout_ms);
}

// Null when the port is taken.
std::unique_ptr<TcpStoreServer> serve(const RankEnvironment& environment, const std::string& address,
                                      const StoreEvents& events) {
  try {
    return std::make_unique<TcpStoreServer>(address, environment.store_port, environment.secret, events);
  } catch (const Error& error) {
    if (error.code() != TSR_E_ALREADY_EXISTS) throw;
    return nullptr;
  }
}

// Claims the rank in the store that has the port of ours, which then says on both sides that two jobs met. Null when
// nobody listens there any more.
std::shared_ptr<KeyValueStore> meet_other_store(const RankEnvironment& environment, int64_t timeout_ms) {
  try {
    return join(environment, std::min(timeout_ms, kOtherStoreMs));
  } catch (const Error& error) {
    if (error.code() == TSR_E_DEADLINE) return nullptr;
    if (error.code() != TSR_E_UNAVAILABLE) throw;
    throw Error(TSR_E_ALREADY_EXISTS, concat("rank 0 cannot serve the job's key-value store on port ",
                                             environment.store_port, ", which is taken: ", error.what()));
  }
}

}  // namespace

JobStore join_job(const RankEnvironment& environment, int64_t timeout_ms, const Log& log, const StoreEvents& events) {
  if (environment.world_size == 1) return {nullptr, std::make_shared<MemoryStore>()};
  if (!environment.serves_store) return {nullptr, join(environment, timeout_ms)};
  const std::string address = listen_address(environment, log);
  const Deadline deadline = deadline_in(timeout_ms);
  do {
    if (auto server = serve(environment, address, events)) return {std::move(server), join(environment, timeout_ms)};
    if (auto store = meet_other_store(environment, remaining_ms(deadline))) return {nullptr, std::move(store)};
  } while (std::chrono::steady_clock::now() < deadline);
  throw Error(TSR_E_ALREADY_EXISTS,
              concat("rank 0 cannot serve the job's key-value store on port ", environment.store_port,
                     ", which another program has taken; give all ranks a free MASTER_PORT (the store is at "
                     "MASTER_PORT + 1) or TESSERA_STORE_ADDR"));
}

}  // namespace tessera
