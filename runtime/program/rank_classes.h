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
  /// Merges ranks with equal programs: `programs` has a number for each rank's program. Two coordinates of an axis are
  /// merged if their programs are equal at all coordinates of the other axes; so classes that share a group have
  /// representatives that share one.
  static RankClasses of_programs(const Mesh& mesh, std::span<const int> programs);
  /// The same classes without the second and the last coordinate of each axis, which are classes of their own.
  static RankClasses with_witnesses(const Mesh& mesh, const RankClasses& classes);
  /// Each rank is a class of its own.
  explicit RankClasses(const Mesh& mesh);

  /// The rank that is planned for this one: on all such axes coordinate 0, the first of its class.
  int representative(int rank) const { return representative_[static_cast<size_t>(rank)]; }
  /// The ranks of each class, ascending, by representative.
  const std::map<int, std::vector<int>>& members() const { return members_; }

 private:
  RankClasses() = default;
  /// For each axis and coordinate: the coordinate that is planned for it.
  using Planned = std::vector<std::vector<int>>;
  void sort(const Mesh& mesh, const Planned& planned);

  std::vector<int> representative_;
  std::map<int, std::vector<int>> members_;
};

}  // namespace tessera::host
