// Asks each strategy, with the entries of those before it in view.

#include "compile/declared_layout.h"

#include "compile/conflicts.h"
#include "compile/pass_runner.h"

namespace tessera::host {

Layout declared_layout(const Model& model, const Mesh& mesh, const StepConfig& step_config,
                       std::span<const StrategyOnAxis> strategies, const Coordinates& coordinates,
                       std::span<const StrategyOnAxis> order) {
  Program bare;
  bare.model = &model;
  bare.mesh = &mesh;
  bare.coordinates = coordinates;
  bare.step_config = step_config;
  bare.strategies.assign(strategies.begin(), strategies.end());
  for (const StrategyOnAxis& strategy : order)
    add_layout(bare, strategy);
  refuse_conflicts(mesh, bare.layout, strategies);
  return bare.layout;
}

}  // namespace tessera::host
