// Streams of the CPU: a queue of work and a thread that does it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "cpu-device/work.h"
#include "tessera/device.hpp"

namespace tessera::cpu {

/// First in, first out. The thread starts with the first work and blocks while there is none. After the first error all
/// work is skipped, save that records complete with that error. Work may be submitted from any thread.
class Stream final : public DeviceStream {
 public:
  /// `num_threads`: the team of the kernels that run on the stream.
  Stream(std::string_view name, int num_threads);
  ~Stream() override;  // finishes what is queued

  std::optional<tsr_error> synchronize(int64_t timeout_ms) override;
  void record(DeviceEvent& event) override;
  void wait(DeviceEvent& event) override;
  void copy(void* dst, const void* src, uint64_t num_bytes) override;
  void fill(void* dst, uint8_t byte, uint64_t num_bytes) override;
  void host_function(tsr_host_function function, void* user) override;
  /// Keeps the kernel until it has run.
  void launch(std::shared_ptr<Kernel> kernel, std::span<void* const> pointers);

 private:
  void submit(Work work);
  void work_until_closed();
  /// Does one piece of work and returns its error, if any. Worker thread.
  std::optional<tsr_error> run(Work& work) noexcept;

  const std::string name_;
  const int num_threads_;

  std::mutex mutex_;
  std::condition_variable submitted_;
  std::condition_variable done_;
  // All under mutex_; error_ is written by the worker only, so the worker reads it without.
  WorkQueue queue_;
  uint64_t num_submitted_ = 0;
  uint64_t num_done_ = 0;
  uint64_t awaited_ = UINT64_MAX;  // the least num_done_ that a synchronize waits for
  bool closing_ = false;
  std::optional<tsr_error> error_;
  std::thread worker_;
};

}  // namespace tessera::cpu
