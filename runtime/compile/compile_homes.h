// What ranks own, without their programs: the homes that strategies make of the layout.
#pragma once

#include <map>

#include "compile/compile.h"
#include "compile/edit/pass_runner.h"
#include "verify/model/home_table.h"

namespace tessera::host {

/// Of one job; borrows its input. Ranks share the layout, and model and base program where they have the same part of
/// it.
class HomesCompiler {
 public:
  explicit HomesCompiler(const CompileInput& input);
  /// Much cheaper than compile_rank.
  RankHomes compile(const Coordinates& coordinates);

 private:
  const CompileInput& input_;
  const std::vector<StrategyOnAxis> order_;
  const Layout layout_;
  // By coordinates on axes that split tensors: the part of the model that a rank has, and its init program before
  // passes.
  std::map<Coordinates, std::shared_ptr<const Model>> models_;
  std::map<Coordinates, BaseProgram> base_;
};

}  // namespace tessera::host
