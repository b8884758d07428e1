// Classes of ranks that run equal programs: one rank of each class is planned for all.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "mesh/mesh.h"
#include "program/strategy_on_axis.h"

namespace tessera::host {

/// Ranks are in one class when they differ only on axes whose strategy does not depend on the coordinate. Pure.
class RankClasses {
 public:
  RankClasses(const Mesh& mesh, std::span<const StrategyOnAxis> strategies);
  /// Each rank is a class of its own.
  explicit RankClasses(const Mesh& mesh);

  /// The rank that is planned for this one: coordinate 0 on all such axes, the first of its class.
  int representative(int rank) const { return representative_[static_cast<size_t>(rank)]; }
  /// The ranks of each class, ascending, by representative.
  const std::map<int, std::vector<int>>& members() const { return members_; }

 private:
  void sort(const Mesh& mesh, const std::vector<bool>& depends_on_axis);

  std::vector<int> representative_;
  std::map<int, std::vector<int>> members_;
};

}  // namespace tessera::host
