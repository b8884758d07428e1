// Compute that runs beside what is measured.
#pragma once

#include <functional>
#include <vector>

#include "exec/device.h"

namespace tessera::host {

/// A kernel that is launched again and again. Borrows all of it.
struct KernelLoad {
  const Device& device;
  tsr_stream* stream;
  tsr_kernel* kernel;
  std::vector<void*> pointers;
  double seconds;  ///< of one launch

  /// Other work; it returns when compute no longer runs.
  using Meanwhile = std::function<void(const std::function<bool()>& computes)>;
  /// The share of its speed that compute keeps beside other work. It runs alone and beside `work` in turns, for about
  /// `total_seconds` alone in all; `work` is called as often on all ranks. [control-thread]
  double share_kept(double total_seconds, const Meanwhile& work) const;

 private:
  double run(uint64_t num_times, const Meanwhile& meanwhile) const;
};

/// The value in the middle; there is at least one.
double median(std::vector<double> values);

}  // namespace tessera::host
