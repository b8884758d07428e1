// Timestamps: when streams got somewhere, by the GPU's clock.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "cuda-device/stream.h"

namespace tessera::cuda {

/// CUDA events with timing, one for each place in a stream.
class Timestamps {
 public:
  Timestamps(const Context& context, uint64_t count);
  ~Timestamps();
  Timestamps(const Timestamps&) = delete;
  Timestamps& operator=(const Timestamps&) = delete;

  /// Throws INVALID_ARGUMENT for an index beyond the last. [issue-thread]
  void write(Stream& stream, uint64_t index);
  /// times_ns[i] of every event that was written since the last read, else 0. [control-thread]
  void read(int64_t* times_ns);

 private:
  int64_t synchronize_clocks();
  void destroy() noexcept;

  const Context& context_;
  cudaStream_t stream_ = nullptr;  // for the event whose time the host knows
  cudaEvent_t known_ = nullptr;
  std::vector<cudaEvent_t> events_;
  std::vector<bool> is_written_;
};

}  // namespace tessera::cuda
