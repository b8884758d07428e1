// The key-value store over TCP: one server in the job, one client per process. Implemented in store/server.cc,
// store/client.cc.
//
// In a handshake both sides prove that they know the job's secret, by HMACs over random numbers of both, so neither the
// secret nor anything that could be replayed is sent (store/wire.h). Nothing is encrypted: the network must be trusted
// not to alter or hijack connections.
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

/// For the handshake of a connection, from its first byte to its last.
inline constexpr int64_t kGreetingTimeoutMs = 5'000;
/// For set, add and the transfer of a reply: the server answers these at once, so after this time the peer is dead. The
/// upper limit of a client's reply_ms.
inline constexpr int64_t kReplyTimeoutMs = 30'000;

/// 128 random bits as 32 hexadecimal digits.
std::string random_secret();

/// The lower limit of a client's reply_ms: a loaded machine may answer this late.
inline constexpr int64_t kShortestReplyMs = 700;

class StoreLoop;

struct StoreEvents {
  /// The last connection of a rank's process closed without a goodbye: the process died. Once per rank, on the server's
  /// thread; it may use the server's `store`, and must neither wait nor throw.
  std::function<void(MemoryStore& store, const Participant& who)> on_lost;
  /// A client followed the protocol but has another secret; its identity is not verified. On the server's thread, as
  /// above.
  std::function<void(const Participant& who)> on_other_secret = {};
};

/// Answers on one thread. A connection that has not completed the handshake is a stranger: few are kept at once, none
/// for longer than kGreetingTimeoutMs, and nothing that they do affects members or ends the job.
///
/// A rank belongs to the first process that claims it. Another one is refused with a sentence that names both. Until
/// kJobStarted is set, that sentence also closes the store, so that two jobs that share a port end instead of mixing.
class TcpStoreServer {
 public:
  /// Listens on `address` ("127.0.0.1" when all ranks are local) and `port` (0: one the kernel chooses), until it is
  /// destroyed. Throws ALREADY_EXISTS when another program has the port, else UNAVAILABLE when it cannot listen.
  TcpStoreServer(const std::string& address, uint16_t port, const std::string& secret, StoreEvents events = {});
  /// When two jobs met here, it first serves for up to two seconds after the store was closed, so that all read why.
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  uint16_t port() const noexcept { return port_; }
  /// The same contents, without a connection. [any-thread]
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
  /// Connects. Waits up to `timeout_ms` for the server to start, and retries when it is disconnected before the server
  /// has answered. Throws
  ///   DEADLINE             no server listens there, or it does not answer
  ///   UNAVAILABLE          the server is not a key-value store
  ///   FAILED_PRECONDITION  the store has another secret, or the loopback interface is down, over which it is reached
  ///   ALREADY_EXISTS       another process has joined as this rank; names both
  /// `reply_ms`: time for requests that are answered at once; clamped to kShortestReplyMs and kReplyTimeoutMs.
  /// `on_retry` is told while the constructor waits for the server.
  TcpStoreClient(std::string host, uint16_t port, const std::string& secret, Participant who, int64_t timeout_ms,
                 int64_t reply_ms = kReplyTimeoutMs, const OnRetry& on_retry = {});
  /// Says goodbye: the process leaves the job and does not count as lost.
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
