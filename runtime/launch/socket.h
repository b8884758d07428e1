// TCP sockets with deadlines.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tessera {

using Deadline = std::chrono::steady_clock::time_point;
Deadline deadline_in(int64_t timeout_ms);

/// An IPv4 or IPv6 TCP socket; closed by the destructor. Not blocking inside: every function that waits takes a
/// deadline.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;

  /// Listens on `address` (numeric, or a name) and `port`; 0: one the kernel chooses. Throws UNAVAILABLE.
  static Socket listen(const std::string& address, uint16_t port);
  /// Connects, trying again until the deadline while nobody listens there. Throws DEADLINE with the last reason.
  static Socket connect(const std::string& host, uint16_t port, Deadline deadline);

  int fd() const noexcept { return fd_; }
  /// The port that listen() got.
  uint16_t local_port() const;
  /// The next connection; an invalid socket (fd -1) when it was gone before it could be taken. Does not wait.
  Socket accept() const;

  /// Moves exactly num_bytes. Throws UNAVAILABLE when the other side closed, DEADLINE when it was too slow.
  void read(void* data, size_t num_bytes, Deadline deadline) const;
  void write(const void* data, size_t num_bytes, Deadline deadline) const;
  /// False when the other side has closed; never waits.
  bool is_open() const;
  /// Ends waiting reads and writes of other threads, which then throw UNAVAILABLE.
  void shut_down() const noexcept;

 private:
  int fd_ = -1;
};

}  // namespace tessera
