// The lock of a group. A waiting rank polls for some microseconds before it sleeps: sleeping and waking up takes longer
// than a small collective. It does not poll if ranks share cores: it would keep the rank that it waits for from
// running.
//
// One mutex and one condition variable for the whole group: groups are small, waits are long
// compared with the work under the lock, and with one lock "all ranks have entered" and "a rank timed out" cannot both
// become true.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "tessera/collective.hpp"
#include "tessera/key_value.hpp"

namespace tessera::local {

/// Why a group can no longer work. Each rank throws it with its own prefix: "<where>: <collective> <text>".
struct Failure {
  tsr_status code;
  int rank;           // the world rank it is about
  std::string text;   // "timed out after 30000 ms waiting for rank 1"
  int reporter = -1;  // coordinate of the rank whose failure it is; the others say "failed: rank 0 <text>"
};

/// The group's lock, the condition variable its ranks wait on, and the group's first failure.
class Monitor {
 public:
  using Lock = std::unique_lock<std::mutex>;

  explicit Monitor(int num_ranks) : spins_(num_ranks <= static_cast<int>(std::thread::hardware_concurrency())) {}

  [[nodiscard]] Lock lock() { return Lock(mutex_); }
  /// To be called after state guarded by the lock has changed.
  void notify() noexcept {
    num_changes_.fetch_add(1, std::memory_order_release);
    changed_.notify_all();
  }

  /// Keeps the first failure and wakes all. [any-thread]
  void fail(const Lock&, std::shared_ptr<const Failure> failure) noexcept {
    if (!failure_) failure_ = std::move(failure);
    failed_.store(true, std::memory_order_release);
    notify();
  }
  /// The first failure, or null.
  const Failure* failure(const Lock&) const noexcept { return failure_.get(); }
  /// For loops over memory, which then stop early. Needs no lock.
  bool has_failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  /// The failure as an Error of this rank. A failure must have been recorded; the lock must be held.
  Error failure_error(const Member& member, const Collective& collective) const {
    const int reporter = failure_->reporter;
    const bool is_own = reporter < 0 || reporter == member.rank;
    const std::string prefix = is_own ? "" : "failed: rank " + std::to_string(member.world_rank(reporter)) + " ";
    return collective_error(failure_->code, member, collective, prefix + failure_->text, failure_->rank);
  }
  void throw_failure(const Member& member, const Collective& collective) const {
    if (failure_) throw failure_error(member, collective);
  }

  /// Waits until ready(), a failure or the deadline; returns ready().
  template <class Ready>
  bool wait(Lock& lock, const Deadline& deadline, Ready ready) {
    const auto is_over = [&] { return failure_ || ready(); };
    spin(lock, is_over);
    changed_.wait_until(lock, deadline.at(), is_over);
    return ready();
  }
  /// Waits for ranks that are busy and wait for no other rank, so it needs no deadline.
  template <class Ready>
  void wait_for_busy(Lock& lock, Ready ready) {
    spin(lock, ready);
    changed_.wait(lock, std::move(ready));
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kSpin{5};

  static void pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  /// Returns with the lock when is_over() is true, or after kSpin.
  template <class Over>
  void spin(Lock& lock, Over is_over) {
    if (!spins_) return;
    const auto end = Clock::now() + kSpin;
    while (!is_over() && Clock::now() < end) {
      const uint64_t seen = num_changes_.load(std::memory_order_relaxed);
      lock.unlock();
      while (num_changes_.load(std::memory_order_acquire) == seen && Clock::now() < end)
        pause();
      // The rank that changed something is about to release the lock: sleeping until then would take longer.
      while (!lock.try_lock() && Clock::now() < end)
        pause();
      if (!lock.owns_lock()) lock.lock();
    }
  }

  const bool spins_;
  std::atomic<uint64_t> num_changes_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<const Failure> failure_;  // guarded by mutex_
  std::atomic<bool> failed_{false};
};

/// The failure of a rank that timed out waiting for `missing` (coordinates): DEADLINE about the first of them.
inline std::shared_ptr<const Failure> timeout_failure(const Member& member, const Collective& collective,
                                                      const std::vector<int>& missing) {
  return std::make_shared<Failure>(Failure{TSR_E_DEADLINE, member.world_rank(missing.front()),
                                           timeout_text(member, collective, missing), member.rank});
}

}  // namespace tessera::local
