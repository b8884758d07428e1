// The time of a single op, outside of a program.
#pragma once

#include <optional>
#include <vector>

#include "exec/device.h"
#include "rates/kernel_load.h"
#include "rates/rates.h"

namespace tessera::host {

/// An op of a device, with operands of its own. Borrows the device. All functions: [control-thread].
class KernelBench {
 public:
  /// Throws UNSUPPORTED for an op that the device does not support.
  KernelBench(const Device& device, const tsr_op& op);

  struct Seconds {
    double median = 0, least = 0;
  };
  /// The time of a launch among launches back to back on the stream.
  Seconds measure(int num_warmups, int num_measured);
  /// The time from a launch until the stream is known to be idle again.
  Seconds measure_round_trip(int num_measured);
  /// The op, of a time measured before; seconds are the median.
  OpRate rate() const { return rate_; }
  KernelLoad load() const { return {device_, stream_.get(), kernel_.get(), pointers_, rate_.seconds}; }

 private:
  void launch();
  void wait() const;

  const Device& device_;
  StreamHandle stream_;
  std::optional<Arena> memory_;
  KernelHandle kernel_;
  std::vector<void*> pointers_;
  OpRate rate_;
};

/// A product of [n, n] and [n, n] matrices, as the forward of a layer.
tsr_op product_op(tsr_dtype dtype, int64_t n);
/// Zeros n elements.
tsr_op zero_op(int64_t n);
/// n elements of float32 to bf16.
tsr_op cast_op(int64_t n);

}  // namespace tessera::host
