// The rank that serves starts the server first and then joins it like all others. When its port is taken, that may pass
// (the job before this one is ending), or another job's store has it; then this rank claims itself there, so that both
// jobs learn that they share a port.

#include "launch/job_store.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr int64_t kTakenPortMs = 5'000;  // for a taken port to become free
constexpr int64_t kOtherStoreMs = 500;  // for another job's store to answer; asked repeatedly, since it may be starting
constexpr int64_t kPauseMs = 100;       // between attempts, which may fail at once

std::shared_ptr<KeyValueStore> join(const RankEnvironment& environment, const std::string& host, int64_t timeout_ms,
                                    int64_t reply_ms, const OnRetry& on_retry = {}) {
  return std::make_shared<TcpStoreClient>(host, environment.store_port, environment.secret,
                                          this_process(environment.rank), timeout_ms, reply_ms, on_retry);
}

// Says why this rank waits for rank 0, after kFirstSay and then each time after twice as long: there may be many ranks.
class SaysWhyItWaits {
 public:
  SaysWhyItWaits(int64_t timeout_ms, const Log& log) : log_(log), deadline_(deadline_in(timeout_ms)) {}

  void operator()(std::string_view reason) {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return;
    log_.info("waiting for rank 0: ", reason, "; ",
              std::chrono::duration_cast<std::chrono::seconds>(deadline_ - now).count(), " s left");
    pause_ *= 2;
    next_ = now + pause_;
  }

 private:
  static constexpr std::chrono::seconds kFirstSay{2};

  Log log_;
  Deadline deadline_, next_ = std::chrono::steady_clock::now() + kFirstSay;
  std::chrono::seconds pause_ = kFirstSay;
};

// How the rank that serves reaches its own server: store_host may lead here only for other machines.
std::string own_address(const std::string& listen_address) {
  return listen_address == "0.0.0.0" ? "127.0.0.1" : listen_address;
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

// Claims this rank in the store that has our port; that store then reports to both jobs that they met. Null when no
// store answers there, or not yet.
std::shared_ptr<KeyValueStore> meet_other_store(const RankEnvironment& environment, const std::string& host) {
  try {
    return join(environment, host, kOtherStoreMs, kReplyTimeoutMs);
  } catch (const Error& error) {
    if (error.code() == TSR_E_DEADLINE || error.code() == TSR_E_UNAVAILABLE) return nullptr;
    throw;
  }
}

}  // namespace

JobStore join_job(const RankEnvironment& environment, int64_t timeout_ms, const Log& log, const StoreEvents& events,
                  int64_t reply_ms) {
  if (environment.world_size == 1) return {nullptr, std::make_shared<MemoryStore>()};
  if (!environment.serves_store)
    return {nullptr, join(environment, environment.store_host, timeout_ms, reply_ms, SaysWhyItWaits(timeout_ms, log))};
  const std::string address = listen_address(environment, log);
  const Deadline deadline = deadline_in(std::min(timeout_ms, kTakenPortMs));
  do {
    if (auto server = serve(environment, address, events))
      return {std::move(server), join(environment, own_address(address), timeout_ms, reply_ms)};
    if (auto store = meet_other_store(environment, own_address(address))) return {nullptr, std::move(store)};
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min<int64_t>(kPauseMs, remaining_ms(deadline))));
  } while (std::chrono::steady_clock::now() < deadline);
  throw Error(TSR_E_ALREADY_EXISTS,
              concat("rank 0 cannot serve the job's key-value store: another program has port ", environment.store_port,
                     "; give all ranks a free MASTER_PORT (the store is at MASTER_PORT + 1) or TESSERA_STORE_ADDR"));
}

}  // namespace tessera::host
