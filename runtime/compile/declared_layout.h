// The layout that strategies declare before any program exists.
#pragma once

#include <span>
#include <vector>

#include "compile/edit/pass_runner.h"
#include "program/program.h"

namespace tessera::host {

/// Asks the strategies of one job, each with the entries of those before it in view. Borrows model and mesh.
class DeclaredLayout {
 public:
  /// `order` is that of the passes: the first entries are applied first.
  DeclaredLayout(const Model& model, const Mesh& mesh, const StepConfig& step_config,
                 std::span<const StrategyOnAxis> strategies, std::vector<StrategyOnAxis> order);
  /// What they declare on the rank at these coordinates, for the whole model. Throws UsageError for strategies that do
  /// not go together.
  Layout at(const Coordinates& coordinates);

 private:
  const std::vector<StrategyOnAxis> order_;
  BaseProgram bare_;
};

}  // namespace tessera::host
