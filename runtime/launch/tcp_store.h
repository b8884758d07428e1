// The key-value store over TCP: one server in the job, one client per process.
//
// Both sides prove in the greeting that they know the job's secret, by HMACs over random numbers of both, so neither
// the secret nor anything that could be used again travels (store/wire.h). Nothing is encrypted, so the network itself
// must be trusted not to alter or take over connections.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "launch/memory_store.h"
#include "launch/participant.h"
#include "launch/socket.h"

namespace tessera::host {

/// For the greeting of a connection, from its first byte to its last.
inline constexpr int64_t kGreetingTimeoutMs = 5'000;
/// For set, add and the transfer of a reply: the server answers at once, so this is a dead peer's time. What a client
/// is given at most.
inline constexpr int64_t kReplyTimeoutMs = 30'000;

/// 128 random bits as 32 hexadecimal digits.
std::string random_secret();

/// A loaded machine may be that late.
inline constexpr int64_t kShortestReplyMs = 700;

class StoreLoop;

struct StoreEvents {
  /// The last connection of a rank's process closed without a goodbye: its process died. Once per rank, on the server's
  /// thread; it may use the server's `store`, and must neither wait nor throw.
  std::function<void(MemoryStore& store, const Participant& who)> on_lost;
  /// Somebody spoke the store's language and has another secret; what it says of itself is not proved. On the server's
  /// thread, as above.
  std::function<void(const Participant& who)> on_other_secret = {};
};

/// Answers on one thread. Whoever has not completed the greeting is a stranger: few are kept at once, none for longer
/// than kGreetingTimeoutMs, and nothing they do reaches the members or ends the job.
///
/// A rank belongs to the first process that claims it. Another one is refused with a sentence that names both; while
/// kJobStarted is not set that sentence also closes the store, so that two jobs that share a port end instead of
/// mixing.
class TcpStoreServer {
 public:
  /// Listens on `address` ("127.0.0.1" when all ranks are local) and `port` (0: one the kernel chooses), until it is
  /// destroyed. Throws ALREADY_EXISTS when another program has the port, else UNAVAILABLE when it cannot listen.
  TcpStoreServer(const std::string& address, uint16_t port, const std::string& secret, StoreEvents events = {});
  /// When two jobs met here, first goes on for up to two seconds after the store was closed, so that all read why.
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  uint16_t port() const noexcept { return port_; }
  /// What the clients see, without a connection. [any-thread]
  MemoryStore& store() noexcept { return store_; }

 private:
  void wake() const noexcept;
  void serve() noexcept;

  Socket listener_;
  const uint16_t port_;
  const Socket wake_;  // an eventfd: the store has changed, or the server stops
  MemoryStore store_;
  std::unique_ptr<StoreLoop> loop_;  // of thread_ alone
  std::atomic<bool> is_stopping_{false};
  std::thread thread_;
};

/// Opens further connections when several threads use it at once.
class TcpStoreClient final : public KeyValueStore {
 public:
  /// Connects; waits up to `timeout_ms` for the server to come up, and tries again when it is dropped before the server
  /// answered. Throws
  ///   DEADLINE             nobody listens there until then, or what does says nothing
  ///   UNAVAILABLE          what listens there is not a store
  ///   FAILED_PRECONDITION  a store with another secret
  ///   ALREADY_EXISTS       another process has joined as this rank; names both
  /// `reply_ms`: for requests that are answered at once; no shorter than kShortestReplyMs.
  TcpStoreClient(std::string host, uint16_t port, const std::string& secret, Participant who, int64_t timeout_ms,
                 int64_t reply_ms = kReplyTimeoutMs);
  /// Says goodbye: the process leaves the job, and is not lost.
  ~TcpStoreClient() override;
  TcpStoreClient(const TcpStoreClient&) = delete;
  TcpStoreClient& operator=(const TcpStoreClient&) = delete;

  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, int64_t timeout_ms) override;
  int64_t add(std::string_view key, int64_t delta) override;
  void close(std::string_view reason) override;
  bool is_silent() const override { return is_silent_; }

 private:
  Socket take();
  std::string request(uint64_t operation, std::string_view key, std::string_view value, int64_t argument,
                      int64_t timeout_ms);

  const std::string host_;
  const uint16_t port_;
  const std::string secret_;
  const Participant who_;
  const int64_t reply_ms_;
  std::atomic<bool> is_silent_{false};
  std::mutex mutex_;
  std::vector<Socket> idle_;  // guarded by mutex_
};

}  // namespace tessera::host
