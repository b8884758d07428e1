// A job, equal on all its ranks: its plugins, mesh, model and the configuration of a step.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "compile/compile.h"
#include "config/axes.h"
#include "config/parse_flags.h"
#include "data/dataset.h"
#include "guard/plugin_calls.h"
#include "job/job_plugins.h"
#include "mesh/mesh.h"
#include "model/model_name.h"
#include "model/parameter_source.h"
#include "plugins/host_services.h"
#include "program/claims.h"

namespace tessera::host {

struct Job {
  TrainConfig config;
  std::vector<PluginFlag> plugin_flags;
  JobPlugins plugins;
  JobOptions options;
  std::vector<MeshAxis> axes;
  Mesh mesh;
  NamedArchitecture named;  ///< what --model names
  Model model;
  StepConfig step_config;
  bool evaluates = false;  ///< something asks for an evaluation; else its program is not compiled
  bool trains = true;      ///< false: it only evaluates, and no parameter has a gradient or optimizer state

  CommunicatorClaims comm_claims;  ///< of the communicator, on the streams that it uses
  StagedKinds staged;              ///< the actions that work in host memory while the device has its own

  /// The device computes in host memory, on the host's streams.
  bool computes_on_host() const { return !staged.calls; }
  /// The communicator keeps all ranks in one process.
  bool ranks_are_threads() const { return comm_claims.flags & TSR_COMM_ONE_PROCESS; }

  const Architecture& architecture() const { return *named.architecture; }
  /// Summed over all data ranks; of a model without sequences, examples.
  int64_t tokens_per_step() const;
  /// The unit of the above: "tokens" or "examples".
  std::string_view items() const { return items_of(architecture().inputs()); }
};

/// Loads plugins and builds the model for a world of `num_ranks`. Throws UsageError for flags that do not fit together,
/// saying which would. Warnings go to `log`.
Job make_job(const ParsedFlags& flags, int num_ranks, const Log& log);

/// The threads of each rank where `num_local_ranks` share a host.
int threads_per_rank(const TrainConfig& config, int num_local_ranks);

/// What a run reads.
struct RunData {
  std::unique_ptr<Dataset> training;    ///< --data; null if the job does not train
  std::unique_ptr<Dataset> evaluation;  ///< null if the job does not evaluate
};

/// Opens --data and --eval-data for the model. Throws UsageError when one has too little for what it is read for. `log`
/// gets the progress of what takes long, such as a folder of many files.
RunData open_data(const Job& job, const Log& log = Log(LogLevel::off));
/// --data-order, or what it is by default: sequential for tokens, shuffled for examples.
DataOrder data_order(const Job& job);
/// How the job reads its data.
DatasetUse dataset_use(const Job& job);

/// The initial parameters: the weights of a Hugging Face folder, or random ones from --seed, with a warning where
/// weights may have been expected. Throws, naming the file, when weights exist but cannot be opened or do not fit the
/// model. Random ones are made by so many threads.
std::unique_ptr<ParameterSource> initial_parameters(const Job& job, const Log& log, int num_threads = 1);

/// One rank's instances of the job's strategies.
class JobStrategies {
 public:
  /// Creates the strategies of all axes, so that options are checked whatever the mesh. Throws UsageError for options
  /// that a strategy refuses.
  JobStrategies(const Job& job, const HostServices& host);
  /// The strategies that run, which are those on axes with more than one rank.
  std::span<const StrategyOnAxis> all() const { return strategies_; }

 private:
  struct Destroy {
    const tsr_strategy_interface* interface = nullptr;
    void operator()(tsr_strategy* strategy) const noexcept { end_with(interface->destroy, strategy); }
  };
  std::vector<std::unique_ptr<tsr_strategy, Destroy>> instances_;
  std::vector<StrategyOnAxis> strategies_;
};

/// The input for compiling this job's programs. Borrows job, strategies and policies; `log` gets the progress of long
/// planning.
CompileInput compile_input(const Job& job, std::span<const StrategyOnAxis> strategies,
                           std::span<const OffloadPolicy> policies, const Log& log = Log(LogLevel::off));

}  // namespace tessera::host
