// Reads a folder of --out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"

namespace tessera::host {

/// Values by step, ascending. A value that is not finite is NaN.
struct Curve {
  std::vector<int64_t> steps;
  std::vector<double> values;
};

/// What a table shows.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// One start of the program in the folder.
struct RunStart {
  std::string name, started;
  int64_t resumed_step = 0;
};

/// The last lines of a rank's log.
struct LogEnd {
  int rank = 0;
  std::string text;
};

struct RecordedRun {
  std::string folder;
  std::string model, mesh, items = "tokens";
  int64_t world_size = 1;
  int64_t num_steps = 0;                ///< asked for
  int64_t last_step = 0;                ///< that the metrics have; 0: none yet
  double seconds = 0;                   ///< of the last run, to the end of that step
  std::vector<RunStart> starts;         ///< in their order
  Facts environment;                    ///< of the last run
  Facts settings;                       ///< config.json
  std::string plan;                     ///< plan.txt
  std::string drawing;                  ///< step.svg
  std::vector<LogEnd> logs;             ///< of rank 0, and of those that say there why they failed; 8 at most
  size_t num_unreadable = 0;            ///< lines of the metrics; a last one that is still being written does not count
  std::map<std::string, Curve> curves;  ///< by the names of metrics: "loss", "eval loss", "grad_norm", ...
};

/// Reads the folder of a run that has ended, is still running or was killed: missing files leave their part empty, and
/// incomplete lines are skipped. Of steps that were repeated after a resume, the newest count. Throws UsageError when
/// the folder has no metrics that tessera wrote. `log` gets the progress of reading long ones.
RecordedRun read_recorded_run(const std::string& folder, const Log& log = Log(LogLevel::off));

}  // namespace tessera::host
