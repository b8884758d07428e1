// A whole run inside a test: ranks are threads, results are kept.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "train/thread_ranks.h"

namespace tessera::testing {
using namespace host;

struct RunResult {
  std::vector<StepMetrics> steps;                        ///< as rank 0 saw them
  std::map<std::string, std::vector<float>> parameters;  ///< final values, put together from what all ranks hold
  std::vector<double> final_losses;                      ///< last loss of every rank
  /// Elements that ranks hold with different bits, and elements that none holds: both 0 in a run that is right.
  uint64_t num_contradictions = 0;
  uint64_t num_missing = 0;
};

/// What else each rank does after its last step, all at once.
using AtEnd = std::function<void(const Job&, const Dataset&, int rank, RankRuntime&)>;

/// Runs `tessera train` with these flags (plus the build's plugin folder) with `num_ranks` threads, one thread each,
/// over local-comm or another communicator. Throws what the first rank that failed threw.
RunResult run_local(std::vector<std::string> flags, int num_ranks, const std::string& comm = "local",
                    const AtEnd& at_end = {});

/// What PyTorch computed of a model in float64: trajectory.json in a folder with the model and tokens.bin.
struct Trajectory {
  std::vector<double> loss, grad_norm;
  std::map<std::string, double> final_weight_norm;  ///< empty where it has none
};
Trajectory trajectory_of(const std::string& folder);
/// The flags that it states, for `num_ranks` data ranks and the accumulation that gives equal tokens.
std::vector<std::string> trajectory_flags(const std::string& folder, int num_ranks);

/// The golden model, of tests/golden/gpt2-nano.
std::string golden_folder();
Trajectory golden_trajectory();
std::vector<std::string> golden_flags(int num_ranks);

/// Where two runs first have different bits in losses, norms or parameters, or one of them is not whole; empty when
/// they are the same.
std::string first_difference(const RunResult& a, const RunResult& b);
/// True when there is none.
bool same_bits(const RunResult& a, const RunResult& b);

}  // namespace tessera::testing
