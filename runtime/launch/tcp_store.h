// The key-value store over TCP: one server in the job, one client per process.
//
// A connection starts with one frame: the magic, and the hash of the job's secret. Whoever sends anything else, or
// nothing for kHelloTimeoutMs, is disconnected without an answer and without harm. The secret keeps jobs apart and
// strangers out; nothing is encrypted, so the network itself must be trusted.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "launch/memory_store.h"
#include "launch/socket.h"

namespace tessera {

inline constexpr int64_t kHelloTimeoutMs = 5'000;
/// For set, add and the transfer of a reply: the server answers at once, so this is a dead peer's time.
inline constexpr int64_t kReplyTimeoutMs = 30'000;

/// 128 random bits as 32 hexadecimal digits.
std::string random_secret();

class TcpStoreServer {
 public:
  /// Listens on `address` ("127.0.0.1" when all ranks are local) and `port` (0: one the kernel chooses), and answers on
  /// threads of its own until it is destroyed. Throws UNAVAILABLE when it cannot listen.
  TcpStoreServer(const std::string& address, uint16_t port, const std::string& secret);
  ~TcpStoreServer();

  uint16_t port() const noexcept { return port_; }

 private:
  struct Connection {
    Socket socket;
    std::thread thread;
    std::atomic<bool> is_done{false};
  };

  void accept_all();
  void reap();
  void serve(Connection& connection);
  bool answer_one(const Socket& socket);

  const std::string hello_;
  Socket listener_;
  uint16_t port_;
  MemoryStore store_;
  std::atomic<bool> is_stopping_{false};
  std::list<Connection> connections_;  // of the accepting thread alone, until it has ended
  std::thread acceptor_;
};

/// Opens further connections when several threads use it at once.
class TcpStoreClient final : public KeyValueStore {
 public:
  /// Connects; waits up to `timeout_ms` for the server to come up. Throws DEADLINE, or UNAVAILABLE when the server does
  /// not know this secret.
  TcpStoreClient(std::string host, uint16_t port, const std::string& secret, int64_t timeout_ms);

  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, int64_t timeout_ms) override;
  int64_t add(std::string_view key, int64_t delta) override;

 private:
  Socket connect(int64_t timeout_ms) const;
  Socket take();
  std::string request(uint64_t operation, std::string_view key, std::string_view value, int64_t argument,
                      int64_t timeout_ms);

  const std::string host_;
  const uint16_t port_;
  const std::string hello_;
  std::mutex mutex_;
  std::vector<Socket> idle_;  // guarded by mutex_
};

}  // namespace tessera
