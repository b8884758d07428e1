// Propagates the failure of one piece of work to what was ordered after it, on its stream and on others: by vector
// clocks on the host, so that the GPU's queues need not check anything. docs/decisions/0015.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "cuda-device/context.h"
#include "tessera/device.h"

namespace tessera::cuda {

/// What is ordered before a point: for each stream, the ticket of its last such work. Tickets are numbered from 1 on
/// each stream. The first is given to its creation, the others to the work that may fail by itself: host functions, and
/// launches of graphs that hold some.
class Clock {
 public:
  uint64_t operator[](uint32_t stream) const { return stream < tickets_.size() ? tickets_[stream] : 0; }
  /// The next ticket of `stream`.
  uint64_t advance(uint32_t stream);
  /// Afterwards, all that is before `other` is before this.
  void merge(const Clock& other);

 private:
  std::vector<uint64_t> tickets_;
};

/// A piece of work that may fail, and what is before it; its own ticket is in the clock.
struct Work {
  uint32_t stream = 0;
  uint64_t ticket = 0;
  Clock clock;
};

/// The failures on one device, in the order in which they happened. [any-thread]
class ErrorTracker {
 public:
  /// `fault` is written by kernels and outlives this.
  explicit ErrorTracker(Fault* fault) : fault_(fault) {}

  /// The index of a new stream in clocks; `clock` is its own, and gets the ticket of its creation. Kernels may report a
  /// fault anew. [control-thread]
  uint32_t add_stream(Clock& clock);
  /// The work failed. What is ordered after it fails too.
  void fail(const Work& work, const tsr_error& error);
  /// The device failed: all of its streams are failed from now on.
  void fail_device(const tsr_error& error);
  /// The first failure before `clock`, if any: a host function's, a kernel's fault, or the device's.
  std::optional<tsr_error> first_before(const Clock& clock);
  /// Runs the function unless there was a failure before it; its own failure is the work's. Never throws.
  void run(const Work& work, tsr_host_function function, void* user) noexcept;

 private:
  /// Of a work; of all streams below `stream`, one of which has run a kernel that found wrong data; or of the device.
  struct Failure {
    enum class Of { work, streams, device } of;
    uint32_t stream = 0;
    uint64_t ticket = 0;
    tsr_error error{};

    bool is_before(const Clock& clock) const;
  };

  void look_for_fault();

  Fault* const fault_;
  std::atomic<uint32_t> num_streams_{0};
  std::atomic<bool> any_{false};
  std::mutex mutex_;
  // Under mutex_.
  bool saw_fault_ = false;
  std::vector<Failure> failures_;
};

}  // namespace tessera::cuda
