// Ranks with equal programs, by what strategies declare: fsdp gives every rank the same program (except
// optimizer_only), pipeline one per stage, zero3 one per owner. Programs can be equal because they name homes and
// coordinates, not ranks and pieces. The declaration is checked later: each rank compares the hash of its own program
// with that of the one that rank 0 planned for it.

#include "program/rank_classes.h"

#include "guard/plugin_calls.h"

namespace tessera::host {
namespace {

/// For each axis: whether its strategy depends on the coordinate.
std::vector<bool> dependent_axes(const Mesh& mesh, std::span<const StrategyOnAxis> strategies) {
  std::vector<bool> depends(mesh.axes().size(), false);
  for (const StrategyOnAxis& strategy : strategies)
    if (TSR_HAS_FN(strategy.interface, tsr_strategy_interface, depends_on_coordinate))
      depends[strategy.axis] = enter(strategy.interface->depends_on_coordinate, strategy.instance) != 0;
  return depends;
}

}  // namespace

RankClasses::RankClasses(const Mesh& mesh, std::span<const StrategyOnAxis> strategies) {
  sort(mesh, dependent_axes(mesh, strategies));
}

RankClasses::RankClasses(const Mesh& mesh) {
  sort(mesh, std::vector<bool>(mesh.axes().size(), true));
}

void RankClasses::sort(const Mesh& mesh, const std::vector<bool>& depends_on_axis) {
  for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
    Coordinates coordinates = mesh.coordinates(rank);
    for (size_t axis = 0; axis < coordinates.size(); ++axis)
      if (!depends_on_axis[axis]) coordinates[axis] = 0;
    representative_.push_back(mesh.rank(coordinates));
    members_[representative_.back()].push_back(rank);
  }
}

}  // namespace tessera::host
