// The metrics file: JSON lines, one object a step.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

struct StepMetrics {
  int64_t step = 0;                ///< counts from 1
  double loss = 0;                 ///< mean over all tokens of the step
  double grad_norm = 0;            ///< global norm, before clipping
  double lr = 0;                   ///< learning rate used by the step
  double loss_scale = 1;           ///< factor of the step's gradients before they were divided by it again; 1: none
  double step_ms = 0;              ///< wall time
  double tokens_per_second = 0;    ///< over all ranks
  int64_t tokens = 0;              ///< of all ranks, from the start of the run to the end of this step
  int64_t memory_bytes = 0;        ///< after the step: in use on the device, or resident memory of the rank's process
  int64_t peak_memory_bytes = 0;   ///< its peak, on a device of what was seen after steps
  int64_t planned_peak_bytes = 0;  ///< the arena of device memory
  /// Of what the arena consists at the planned peak: "parameters", "gradients", ..., and "waste".
  std::vector<std::pair<std::string, int64_t>> planned_bytes = {};
};

/// One line without the newline. Finite numbers read back to the same bits; a number that is not finite is the string
/// "NaN", "Infinity" or "-Infinity" (JSON has no such numbers; float() in Python and Number() in JavaScript read them).
std::string to_json_line(const StepMetrics& metrics);

/// Writes `--metrics FILE`. [control-thread]
class MetricsWriter {
 public:
  /// Creates the file, or empties it. Throws UNAVAILABLE with the system's reason.
  explicit MetricsWriter(const std::string& path);
  /// Appends one line and flushes it. Throws UNAVAILABLE when it could not be written (disk full, for instance).
  void write(const StepMetrics& metrics);

 private:
  std::string path_;
  std::ofstream out_;
};

}  // namespace tessera
