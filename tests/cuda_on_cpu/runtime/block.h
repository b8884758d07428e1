// One block of a kernel at a time, its threads as fibres of the calling thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda_on_cpu.h"
#include "fibre.h"

namespace cuda_on_cpu {

inline constexpr unsigned kWarpSize = 32;

/// One thread of a block.
struct BlockThread {
  uint3 index;
  unsigned number;  // in the block, x first
  Fibre* paused = nullptr;
  const uint64_t* awaited = nullptr;  // goes on when that is no longer `seen`
  uint64_t seen = 0;
  // What it gives to an operation of its warp, and what it gets.
  uint32_t mask = 0;  // of the lanes in the operation; 0: it is in none
  WarpOffer offer{};
  WarpAnswer answer{};
  uint64_t num_operations = 0;
};

/// Runs the blocks of one launch after one another. The fibres are the calling thread's, kept for the next launch.
class BlockRunner {
 public:
  /// `seed` 0: threads start in the order of their numbers; else in an order of the seed.
  BlockRunner(const LaunchShape& shape, const std::function<void()>& kernel, uint64_t seed);
  ~BlockRunner();

  /// Returns "" or what went wrong; then some threads have not ended and no other block may be run.
  std::string run(uint3 block);

  // For the thread that runs.
  void meet_block();
  WarpAnswer meet_warp(uint32_t mask, const WarpOffer& offer);
  unsigned lane() const { return running_->number % kWarpSize; }
  void* shared_memory() { return shared_.data(); }

 private:
  void start_threads();
  void resume(Fibre& fibre);
  bool resume_ready();
  void wait(const uint64_t& awaited);
  void answer_all(unsigned first, uint32_t mask);
  bool shared_memory_is_whole() const;
  std::string divergence() const;

  const LaunchShape& shape_;
  const std::function<void()>& kernel_;
  std::vector<BlockThread> threads_;
  std::vector<BlockThread*> order_;
  std::vector<unsigned char> shared_;
  size_t num_started_ = 0, num_ended_ = 0, num_at_barrier_ = 0;
  uint64_t num_barriers_ = 0;
  BlockThread* running_ = nullptr;
  Fibre* fibre_ = nullptr;
};

/// The calling thread's; null outside of kernels.
BlockRunner* current_runner();

}  // namespace cuda_on_cpu
