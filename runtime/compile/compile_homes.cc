// The first passes of the pipeline (compile.cc), over a program without compute: enough for homes.

#include "compile/compile_homes.h"

#include "compile/declared_layout.h"
#include "passes/shard_model.h"

namespace tessera::host {

HomesCompiler::HomesCompiler(const CompileInput& input)
    : input_(input),
      order_(pass_order(input.strategies)),
      layout_(DeclaredLayout(input.model, input.mesh, input.step_config, input.strategies, order_)
                  .at(input.mesh.coordinates(0))) {}

RankHomes HomesCompiler::compile(const Coordinates& coordinates) {
  const Coordinates part = input_.mesh.on_axes_that_split(TSR_SPLITS_TENSORS, coordinates);
  std::shared_ptr<const Model>& model = models_[part];
  if (!model) {
    model = std::make_shared<const Model>(shard_model(input_.model, input_.mesh, coordinates, layout_));
    Program init = build_program(*model, input_.mesh, coordinates, input_.step_config, layout_, TSR_PURPOSE_INIT,
                                 input_.describe_op);
    init.strategies.assign(input_.strategies.begin(), input_.strategies.end());
    base_.try_emplace(part, std::move(init));
  }
  BaseProgram& base = base_.at(part);
  base.move_to(coordinates, layout_, 0);
  return {model, base.after_passes(order_, input_.describe_op)};
}

}  // namespace tessera::host
