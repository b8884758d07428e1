// A program without buffers and actions shows strategies the model, the mesh and the layout so far.

#include "compile/declared_layout.h"

#include <utility>

#include "compile/conflicts.h"

namespace tessera::host {
namespace {

Program bare_program(const Model& model, const Mesh& mesh, const StepConfig& step_config,
                     std::span<const StrategyOnAxis> strategies) {
  Program bare;
  bare.model = &model;
  bare.mesh = &mesh;
  bare.coordinates = mesh.coordinates(0);
  bare.step_config = step_config;
  bare.strategies.assign(strategies.begin(), strategies.end());
  return bare;
}

}  // namespace

DeclaredLayout::DeclaredLayout(const Model& model, const Mesh& mesh, const StepConfig& step_config,
                               std::span<const StrategyOnAxis> strategies, std::vector<StrategyOnAxis> order)
    : order_(std::move(order)), bare_(bare_program(model, mesh, step_config, strategies)) {}

Layout DeclaredLayout::at(const Coordinates& coordinates) {
  bare_.move_to(coordinates, {}, 0);
  for (const StrategyOnAxis& strategy : order_)
    bare_.add_layout(strategy);
  const Program& declared = bare_.program();
  refuse_conflicts(*declared.mesh, declared.layout, declared.strategies);
  return declared.layout;
}

}  // namespace tessera::host
