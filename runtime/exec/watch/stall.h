// Whether work that is counted goes on.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tessera::host {

/// For how long a count has stayed the same, of the time in which this process ran. Look often: more than a second
/// since the last look counts as one second, since the process may have been stopped.
class Stall {
 public:
  using Clock = std::chrono::steady_clock;

  /// From now on.
  void begin() { *this = {Clock::now(), kNone, {}}; }
  Clock::duration look(uint64_t count) {
    const auto now = Clock::now();
    const auto passed = std::min<Clock::duration>(now - last_look_, kMaxStep);
    *this = {now, count, count == count_ ? age_ + passed : Clock::duration()};
    return age_;
  }

  Stall() = default;

 private:
  static constexpr uint64_t kNone = UINT64_MAX;
  static constexpr std::chrono::seconds kMaxStep{1};
  Stall(Clock::time_point last_look, uint64_t count, Clock::duration age)
      : last_look_(last_look), count_(count), age_(age) {}

  Clock::time_point last_look_ = {};
  uint64_t count_ = kNone;
  Clock::duration age_ = {};
};

}  // namespace tessera::host
