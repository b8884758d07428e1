// The mesh of a run: axes with their sizes and strategies, from `--mesh`, `--strategy` and the world's size.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/train_config.h"

namespace tessera::host {

/// One axis of the mesh. Outermost first in a list; the product of num_ranks is the world.
struct MeshAxis {
  std::string name;
  int num_ranks = 1;
  std::string strategy;  ///< plugin name or path; empty only where num_ranks is 1
};

/// Reads "pp=2,dp=4,tp=2". Throws UsageError for anything else: bad or repeated names, sizes below 1.
std::vector<AxisFlag> parse_mesh(std::string_view text);
/// Reads "fsdp" or "dp=fsdp,tp=tensor". Throws UsageError.
std::vector<StrategyFlag> parse_strategies(std::string_view text);
/// The texts that read back to the same values.
std::string print_mesh(const std::vector<AxisFlag>& mesh);
std::string print_strategies(const std::vector<StrategyFlag>& strategies);

/// World ranks that the flags ask for: --nproc, else the mesh's product, else 0 (the launcher or 1 decides). Throws
/// UsageError when --nproc and --mesh contradict each other.
int requested_world(const TrainConfig& config);

/// The mesh of a world of `world_size` ranks. No --mesh is one axis "dp" over the world; no --strategy is the default
/// one on it when it has more than one rank. Throws UsageError for an axis without a strategy, a strategy for an axis
/// that the mesh lacks, and a mesh whose product is not the world.
std::vector<MeshAxis> resolve_axes(const TrainConfig& config, int world_size);

}  // namespace tessera::host
