// TCP sockets with deadlines.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

struct sockaddr;

namespace tessera::host {

using Deadline = std::chrono::steady_clock::time_point;
Deadline deadline_in(int64_t timeout_ms);
/// The longest that remaining_ms gives: far deadlines are waited for in several calls.
inline constexpr int64_t kLongestWaitMs = 1000;
/// The timeout for poll(2) and similar calls, at most kLongestWaitMs; 0 after the deadline.
int remaining_ms(Deadline deadline);

/// What a refused connection means: the server does not listen yet, or no longer.
enum class Refused { not_yet, no_more };

/// Told after each failed attempt to connect why it failed.
using OnRetry = std::function<void(std::string_view reason)>;

bool is_loopback(const sockaddr& address);

/// An IPv4 or IPv6 TCP socket; closed by the destructor. Every function that waits takes a deadline. Also used to own
/// other descriptors that can be polled.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;

  /// Listens on `address` (numeric, or a name) and `port`; 0: one the kernel chooses. Throws ALREADY_EXISTS when the
  /// port is taken, else UNAVAILABLE.
  static Socket listen(const std::string& address, uint16_t port);
  /// Connects. Retries until the deadline; with Refused::no_more only until all addresses have refused. Throws DEADLINE
  /// with the last reason; at once FAILED_PRECONDITION where this machine's loopback interface is down.
  static Socket connect(const std::string& host, uint16_t port, Deadline deadline, Refused refused = Refused::not_yet,
                        const OnRetry& on_retry = {});

  int fd() const noexcept { return fd_; }
  /// The port that the socket is bound to.
  uint16_t local_port() const;
  /// The next connection; an invalid socket (fd -1) and errno when there is none or it cannot be accepted. Does not
  /// wait.
  Socket accept() const;

  /// Transfer exactly num_bytes. Throw UNAVAILABLE when the other side closed the connection, DEADLINE when it was too
  /// slow.
  void read(void* data, size_t num_bytes, Deadline deadline) const;
  void write(const void* data, size_t num_bytes, Deadline deadline) const;

 private:
  int fd_ = -1;
};

}  // namespace tessera::host
