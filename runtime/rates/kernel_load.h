// Compute that runs during a measurement.
#pragma once

#include <functional>
#include <vector>

#include "exec/device.h"

namespace tessera::host {

/// A kernel that is launched repeatedly. Borrows its members.
struct KernelLoad {
  const Device& device;
  tsr_stream* stream;
  tsr_kernel* kernel;
  std::vector<void*> pointers;
  double seconds;  ///< of one launch

  /// Other work; it returns when compute no longer runs.
  using Meanwhile = std::function<void(const std::function<bool()>& computes)>;
  /// The fraction of its speed that compute keeps during other work. It runs alternately alone and with `work`, alone
  /// for about `total_seconds` in all; `work` is called equally often on all ranks. [control-thread]
  double share_kept(double total_seconds, const Meanwhile& work) const;

 private:
  double run(uint64_t num_times, const Meanwhile& meanwhile) const;
};

/// The median; needs at least one value.
double median(std::vector<double> values);

}  // namespace tessera::host
