// How long tests wait. What must come is waited for, with one limit that no machine needs; that it comes at once, and
// not when a time-out ends, shows with a time-out that no test lives to see. Where a time-out itself is tested, it is
// short, and the ranks that take part must arrive within it: on a machine too busy for that, the test runs again with a
// longer one.
#pragma once

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <thread>

namespace tessera::testing {

inline constexpr std::chrono::seconds kPatience(100);
inline constexpr int64_t kPatienceMs = 100'000;
/// A time-out that is longer than anything waits in a test.
inline constexpr int64_t kNeverMs = 10 * kPatienceMs;

/// Waits until `is_so` returns true; returns false if it has not within kPatience.
template <class Condition>
bool eventually(Condition&& is_so) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

/// Runs `test(time_ms)`, up to three times and each time with five times the time, until nothing fails in it. What
/// fails in the last run is the test's failure. A fault must fail every time, so this hides none.
template <class Test>
void with_short_time(int64_t time_ms, Test&& test) {
  for (int attempt = 0; attempt < 2; ++attempt, time_ms *= 5) {
    ::testing::TestPartResultArray results;
    bool has_failed = false;
    {
      const ::testing::ScopedFakeTestPartResultReporter all_threads(
          ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &results);
      try {
        test(time_ms);
      } catch (const std::exception&) {
        has_failed = true;
      }
    }
    for (int i = 0; i < results.size(); ++i)
      has_failed = has_failed || results.GetTestPartResult(i).failed();
    if (!has_failed) return;
  }
  test(time_ms);
}

/// Lets those that take no part stay until the others are done.
class Crowd {
 public:
  void leave() { ++num_gone_; }
  void wait_for(int num_gone) const {
    EXPECT_TRUE(eventually([&] { return num_gone_ >= num_gone; })) << num_gone_ << " of " << num_gone << " are done";
  }

 private:
  std::atomic<int> num_gone_{0};
};

}  // namespace tessera::testing
