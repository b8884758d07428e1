// What ranks own, without their programs: the homes that strategies make of the layout.
#pragma once

#include <map>

#include "compile/compile.h"
#include "verify/model/rank_homes.h"

namespace tessera::host {

/// Of one job; borrows its input. Ranks share the layout, and the model where they have the same part of it.
class HomesCompiler {
 public:
  explicit HomesCompiler(const CompileInput& input);
  /// Much cheaper than compile_rank.
  RankHomes compile(const Coordinates& coordinates);

 private:
  const CompileInput& input_;
  const std::vector<StrategyOnAxis> order_;
  const Layout layout_;
  std::map<Coordinates, std::shared_ptr<const Model>> models_;  // by coordinates on axes that split tensors
};

}  // namespace tessera::host
