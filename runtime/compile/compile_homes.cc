// The first passes of the pipeline (compile.cc), over a program without compute: enough for homes.

#include "compile/compile_homes.h"

#include "compile/declared_layout.h"
#include "passes/shard_model.h"

namespace tessera::host {

RankHomes compile_homes(const CompileInput& input, const Coordinates& coordinates) {
  const auto order = pass_order(input.strategies);
  const Layout layout = declared_layout(input.model, input.mesh, input.shape, input.strategies, coordinates, order);
  RankHomes homes;
  homes.model = std::make_shared<const Model>(shard_model(input.model, input.mesh, coordinates, layout));
  homes.init =
      build_program(*homes.model, input.mesh, coordinates, input.shape, layout, TSR_PURPOSE_INIT, input.describe_op);
  homes.init.strategies.assign(input.strategies.begin(), input.strategies.end());
  for (const StrategyOnAxis& strategy : order)
    run_pass(homes.init, strategy, input.describe_op);
  return homes;
}

}  // namespace tessera::host
