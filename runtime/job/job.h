// What a run is, equal on all ranks: its plugins, mesh, model and the shape of its step.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "compile/compile.h"
#include "config/axes.h"
#include "config/parse_flags.h"
#include "data/dataset.h"
#include "job/job_plugins.h"
#include "mesh/mesh.h"
#include "model/model_name.h"
#include "model/parameter_source.h"

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
  StepConfig shape;
  bool evaluates = false;  ///< whether anything asks for an evaluation; else its program is not compiled

  uint32_t comm_flags = 0;  ///< TSR_COMM_* of the communicator
  StagedKinds staged;       ///< what is the host's while the device is not the CPU

  /// The device computes in the host's memory, on the host's streams.
  bool device_is_cpu() const { return !staged.calls; }
  /// The communicator keeps all ranks in one process.
  bool ranks_are_threads() const { return comm_flags & TSR_COMM_ONE_PROCESS; }

  const Architecture& architecture() const { return *named.architecture; }
  /// Of all data ranks; in a model without sequences, examples.
  int64_t tokens_per_step() const;
  /// What these are: "tokens" or "examples".
  std::string_view items() const { return items_of(architecture().inputs()); }
};

/// Loads plugins and builds the model for a world of `num_ranks`. Throws UsageError for what does not go together, with
/// what does. Logs what was loaded on `log`.
Job make_job(const ParsedFlags& flags, int num_ranks, const Log& log);

/// What --data holds for the model, which is enough for one micro-step.
std::unique_ptr<Dataset> open_data(const Job& job);
/// How the job walks through it.
DatasetUse dataset_use(const Job& job);

/// The values the run starts from: the weights of a Hugging Face folder, or, with a warning, random ones of --seed.
/// Throws, naming the file, for weights that are there and cannot be opened or are not the model's.
std::unique_ptr<ParameterSource> initial_parameters(const Job& job, const Log& log);

/// One rank's strategies, created on its host.
class JobStrategies {
 public:
  /// Creates those of all axes, so that options are checked alike whatever the mesh. Throws UsageError for options that
  /// a strategy refuses.
  JobStrategies(const Job& job, const tsr_host* host);
  /// Those that run: an axis of one rank has nothing to split, so the run is the one without that axis.
  std::span<const StrategyOnAxis> all() const { return strategies_; }

 private:
  struct Destroy {
    const tsr_strategy_interface* interface = nullptr;
    void operator()(tsr_strategy* strategy) const noexcept { interface->destroy(strategy); }
  };
  std::vector<std::unique_ptr<tsr_strategy, Destroy>> instances_;
  std::vector<StrategyOnAxis> strategies_;
};

/// What compiling this job's programs depends on. Borrows job and strategies; `log` is told how far planning is that
/// takes long.
CompileInput compile_input(const Job& job, std::span<const StrategyOnAxis> strategies,
                           const Log& log = Log(LogLevel::off));

}  // namespace tessera::host
