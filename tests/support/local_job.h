// A whole run inside a test: ranks are threads, results are kept.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "observe/metrics.h"

namespace tessera::testing {

struct RunResult {
  std::vector<StepMetrics> steps;                        ///< as rank 0 saw them
  std::map<std::string, std::vector<float>> parameters;  ///< final values, of rank 0
  std::vector<double> final_losses;                      ///< last loss of every rank
};

/// Runs `tessera train` with these flags (plus the build's plugin folder) over local-comm with `num_ranks` threads.
RunResult run_local(std::vector<std::string> flags, int num_ranks);

/// The golden model of tests/golden/gpt2-nano and its trajectory.
std::string golden_folder();
struct Trajectory {
  std::vector<double> loss, grad_norm;
  std::map<std::string, double> final_weight_norm;
};
Trajectory golden_trajectory();
/// The flags that trajectory.json states, for `num_ranks` data ranks and the accumulation that gives equal tokens.
std::vector<std::string> golden_flags(int num_ranks);

/// True when both runs have the same bits: losses, norms and parameters.
bool same_bits(const RunResult& a, const RunResult& b);

}  // namespace tessera::testing
