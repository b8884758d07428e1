// Every flag of `tessera train` and `tessera plan` as one row: its help, how it is read into a TrainConfig and printed
// from it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/flag.h"

namespace tessera::host {

/// All flags, in the order of the help.
std::span<const Flag> train_flags();

/// Whether a command has the flag: `eval` has none that only affect training.
bool has_flag(FlagSet set, const Flag& flag);

/// One resolved setting, as text.
struct ConfigField {
  std::string name;  ///< the flag without dashes: "batch-size"
  std::string value;
};

/// Every field that all ranks must agree on, in the order of the help. It leaves out the paths of model, data, plugins,
/// checkpoints and metrics, which may differ between machines (ranks compare what they read from them), --overwrite,
/// log level and delays.
std::vector<ConfigField> shared_fields(const TrainConfig& config);

/// Those of them that change what is computed: data, batches, seed, optimization and precision. The others divide the
/// work or say where it is done.
std::vector<ConfigField> result_fields(const TrainConfig& config);

}  // namespace tessera::host
