// The metrics file: JSON lines, one object that describes the run, then one per step, evaluation
// and checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/output_file.h"

namespace tessera::host {

/// What does not change from step to step.
struct RunMetrics {
  std::string run = {};      ///< unique name, in every line of the run
  std::string started = {};  ///< ISO 8601, UTC
  std::string version = {};  ///< of tessera
  std::string model = {};
  std::string mesh = {};  ///< "dp=2 ddp"
  int64_t world_size = 1;
  int64_t steps = 0;
  int64_t resumed_step = 0;      ///< steps that were done before; 0: the run began here
  double load_ms = 0;            ///< wall time in which all ranks read a checkpoint; 0: none did
  std::string items = "tokens";  ///< what a step consumes: "tokens" or "examples"; part of the keys
  int64_t tokens_per_step = 0;
  int64_t planned_peak_bytes = 0;  ///< the arena of device memory
  /// Contents of the arena at the planned peak: "parameters", "gradients", ..., and "waste".
  std::vector<std::pair<std::string, int64_t>> planned_bytes = {};
  /// Where rank 0 runs: "host", "processor", "compiler", ...
  std::vector<std::pair<std::string, std::string>> environment = {};
};

struct StepMetrics {
  int64_t step = 0;                     ///< counts from 1
  std::string items = "tokens";         ///< as in RunMetrics
  double loss = 0;                      ///< mean over all tokens of the step
  std::optional<double> accuracy = {};  ///< of classifiers: fraction of the step's examples predicted correctly
  double grad_norm = 0;                 ///< global norm, before clipping
  double lr = 0;                        ///< learning rate used by the step
  double loss_scale = 1;                ///< factor by which gradients were multiplied during the step; 1: none
  bool updated = true;                  ///< false: the step was skipped because a gradient is not finite
  double seconds = 0;                   ///< wall time from the start of the first step to the end of this one
  double step_ms = 0;                   ///< wall time
  double tokens_per_second = 0;         ///< over all ranks
  int64_t tokens = 0;                   ///< of all ranks, from the start of the run to the end of this step
  int64_t memory_bytes = 0;       ///< after the step: in use on the device, or resident memory of the rank's process
  int64_t peak_memory_bytes = 0;  ///< its peak; on a device, the largest value seen after a step
  /// With offload policies: bytes that they made the rank copy to device memory, and from it.
  std::optional<int64_t> fetched_bytes = {}, evicted_bytes = {};
  /// Where these are kept in files: bytes that were read and written there, in whole blocks, and the time that reads
  /// and writes took, added up, although they may run at the same time.
  std::optional<int64_t> file_read_bytes = {}, file_written_bytes = {};
  std::optional<double> file_busy_ms = {};
};

/// What an evaluation gives.
struct EvalMetrics {
  int64_t after_step = 0;                              ///< the steps before it
  std::string items = "tokens";                        ///< as in RunMetrics
  double loss = 0;                                     ///< mean over the items
  std::optional<double> perplexity = std::nullopt;     ///< of language models: e^loss
  std::optional<double> bits_per_byte = std::nullopt;  ///< where tokens are bytes
  std::optional<double> accuracy = std::nullopt;       ///< of classifiers: fraction of the examples predicted correctly
  int64_t num_items = 0;                               ///< tokens or examples that were predicted
  double seconds = 0;                                  ///< wall time of the evaluation
};

/// One checkpoint, or the attempt at it.
struct SaveMetrics {
  int64_t step = 0;       ///< after which it was saved
  double ms = 0;          ///< wall time, until the checkpoint had its name
  double pause_ms = 0;    ///< of it, how long steps waited
  int64_t num_bytes = 0;  ///< of all ranks' files, index.json and config.json; 0 when it failed
  std::string error;      ///< why it failed; empty: it did not
};

/// Sets `run` and `started` for a run that starts now.
void name_run(RunMetrics& run);

/// One line without the newline. Finite numbers read back to the same bits. A number that is not finite is null, and
/// the array "not_finite", which exists only then, has its name.
std::string to_json_line(const RunMetrics& run);
std::string to_json_line(const StepMetrics& step, const std::string& run);
std::string to_json_line(const SaveMetrics& save, const std::string& run);
std::string to_json_line(const EvalMetrics& evaluation, const std::string& run);

/// Whether a file that begins like this has our metrics.
bool begins_like_metrics(std::string_view begin);

/// Writes `--metrics FILE`. [control-thread]
class MetricsWriter {
 public:
  /// Opens the output and writes the line of the run. Throws what OutputFile throws.
  MetricsWriter(const Output& output, const RunMetrics& run);
  /// Appends one line. Throws UNAVAILABLE when it could not be written (disk full, for instance).
  void write(const StepMetrics& step);
  void write(const SaveMetrics& save);
  void write(const EvalMetrics& evaluation);

 private:
  OutputFile out_;
  std::string run_;
};

}  // namespace tessera::host
