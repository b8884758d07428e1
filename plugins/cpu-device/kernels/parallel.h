// Work cut over the team of a rank: by the number of elements and of threads only, so results repeat.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <mutex>

// The thread sanitizer cannot see how OpenMP's threads wait for each other: under it, a team is made of plain threads.
#ifdef TESSERA_CHECKS_THREADS
#include <thread>
#include <vector>
#endif

namespace tessera::cpu {

/// Calls body(begin, end, thread) on `num_threads` threads, which cut [0, num_items) at multiples of `grain` in parts
/// as equal as that allows; parts may be empty, and then body is not called. With 1 thread, or with no more than one
/// grain of work, no other thread takes part. `body` must not throw.
template <class Body>
void parallel_for(int num_threads, uint64_t num_items, uint64_t grain, const Body& body) {
  const uint64_t num_grains = (num_items + grain - 1) / grain;
  if (num_threads <= 1 || num_grains <= 1) {
    if (num_items > 0) body(uint64_t{0}, num_items, 0);
    return;
  }
  const auto cut = [&](int thread) {
    const auto parts = static_cast<uint64_t>(num_threads);
    const auto t = static_cast<uint64_t>(thread);
    return std::min(num_items, (num_grains / parts * t + std::min(num_grains % parts, t)) * grain);
  };
  const auto run_part = [&](int thread) {
    if (cut(thread) < cut(thread + 1)) body(cut(thread), cut(thread + 1), thread);
  };
#ifdef TESSERA_CHECKS_THREADS
  std::vector<std::thread> team;
  for (int thread = 1; thread < num_threads; ++thread)
    team.emplace_back(run_part, thread);
  run_part(0);
  for (std::thread& member : team)
    member.join();
#else
#pragma omp parallel for num_threads(num_threads) schedule(static, 1)
  for (int thread = 0; thread < num_threads; ++thread)
    run_part(thread);
#endif
}

/// parallel_for with a body that may throw; rethrows an exception of one thread.
template <class Body>
void parallel_for_throwing(int num_threads, uint64_t num_items, uint64_t grain, const Body& body) {
  std::exception_ptr failure;
  std::mutex mutex;
  parallel_for(num_threads, num_items, grain, [&](uint64_t begin, uint64_t end, int thread) {
    try {
      body(begin, end, thread);
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  });
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tessera::cpu
