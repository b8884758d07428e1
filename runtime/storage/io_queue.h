// Reads and writes in flight: what io_uring and threads have in common.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace tessera::host {

/// One read or write of the system. `data` belongs to the kernel from start() until the request has come back.
struct IoRequest {
  int descriptor = -1;
  uint64_t offset = 0;        ///< in the file, bytes
  std::byte* data = nullptr;  ///< written to the file, or filled from it
  uint64_t num_bytes = 0;     ///< less than 2 GiB
  bool is_write = false;
};

struct IoCompletion {
  unsigned slot = 0;
  int64_t result = 0;  ///< bytes moved, which may be fewer than asked for; or -errno
};

/// Up to kSlots requests in flight. One thread at a time uses it. The destructor waits for what is in flight.
class IoQueue {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr unsigned kSlots = 16;

  virtual ~IoQueue() = default;

  /// Starts a request in a slot, below kSlots, that has none in flight. What the system refuses is a completion, too.
  virtual void start(unsigned slot, const IoRequest& request) noexcept = 0;
  /// The next request that has come back; nothing when the deadline passes first. At least one must be in flight.
  virtual std::optional<IoCompletion> wait_until(Clock::time_point deadline) = 0;
};

}  // namespace tessera::host
