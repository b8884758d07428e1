// The layout that strategies declare before any program exists.
#pragma once

#include <span>

#include "program/program.h"

namespace tessera::host {

/// For the whole model, in the order of `order`, which is that of the passes: the first entries are applied first.
/// Throws UsageError for strategies that do not go together.
Layout declared_layout(const Model& model, const Mesh& mesh, const StepConfig& step_config,
                       std::span<const StrategyOnAxis> strategies, const Coordinates& coordinates,
                       std::span<const StrategyOnAxis> order);

}  // namespace tessera::host
