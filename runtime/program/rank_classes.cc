// Ranks with equal programs, by what strategies declare: fsdp gives every rank the same program (except
// optimizer_only), pipeline one per stage, zero3 one per owner. Where a strategy may treat coordinates differently, the
// programs show which it does: under zero3 all ranks that own nothing have the same one.
//
//     pp=2, dp=3    pipeline, ddp    declared                       {0, 1, 2} {3, 4, 5}
//     dp=5          zero3            declared                       {0} {1} {2} {3} {4}
//     dp=5          zero3            programs 7, 3, 5, 5, 5         {0} {1} {2, 3, 4}
//
// Programs can be equal because they name homes and coordinates, not ranks and pieces. The declaration is checked
// later: each rank compares the hash of its own program with that of the one that rank 0 planned for it.
//
// Invariant: a class is a product of sets of coordinates, so classes that share a group have representatives that share
// one. Cost: ranks times axes, times the logarithm of the ranks of an axis.

#include "program/rank_classes.h"

#include <numeric>

#include "guard/plugin_calls.h"

namespace tessera::host {
namespace {

bool depends_on_coordinate(const StrategyOnAxis& strategy) {
  return TSR_HAS_FN(strategy.interface, tsr_strategy_interface, depends_on_coordinate) &&
         enter(strategy.interface->depends_on_coordinate, strategy.instance) != 0;
}

std::vector<int> each_its_own(const Axis& axis) {
  std::vector<int> coordinates(static_cast<size_t>(axis.num_ranks));
  std::iota(coordinates.begin(), coordinates.end(), 0);
  return coordinates;
}

}  // namespace

RankClasses::RankClasses(const Mesh& mesh, std::span<const StrategyOnAxis> strategies) {
  Planned planned;
  for (const Axis& axis : mesh.axes())
    planned.emplace_back(static_cast<size_t>(axis.num_ranks), 0);
  for (const StrategyOnAxis& strategy : strategies)
    if (depends_on_coordinate(strategy))
      planned[static_cast<size_t>(strategy.axis)] = each_its_own(mesh.axes()[static_cast<size_t>(strategy.axis)]);
  sort(mesh, planned);
}

RankClasses RankClasses::of_programs(const Mesh& mesh, std::span<const int> programs) {
  Planned planned;
  for (size_t axis = 0; axis < mesh.axes().size(); ++axis) {
    std::vector<std::vector<int>> of_coordinate(static_cast<size_t>(mesh.axes()[axis].num_ranks));
    for (int rank = 0; rank < mesh.num_ranks(); ++rank)
      of_coordinate[static_cast<size_t>(mesh.coordinates(rank)[axis])].push_back(programs[static_cast<size_t>(rank)]);
    std::map<std::vector<int>, int> first;
    std::vector<int>& planned_of = planned.emplace_back();
    for (const std::vector<int>& programs_there : of_coordinate)
      planned_of.push_back(first.try_emplace(programs_there, static_cast<int>(planned_of.size())).first->second);
  }
  RankClasses classes;
  classes.sort(mesh, planned);
  return classes;
}

RankClasses RankClasses::with_witnesses(const Mesh& mesh, const RankClasses& classes) {
  std::map<std::vector<int>, int> number_of;  // by the class, and whether each coordinate is a witness
  std::vector<int> numbers;
  for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
    std::vector<int> key{classes.representative(rank)};
    const Coordinates coordinates = mesh.coordinates(rank);
    for (size_t axis = 0; axis < coordinates.size(); ++axis) {
      const int last = mesh.axes()[axis].num_ranks - 1, at = coordinates[axis];
      key.push_back(at == 1 || at == last ? at : 0);
    }
    numbers.push_back(number_of.try_emplace(std::move(key), static_cast<int>(number_of.size())).first->second);
  }
  return of_programs(mesh, numbers);
}

RankClasses::RankClasses(const Mesh& mesh) {
  Planned planned;
  for (const Axis& axis : mesh.axes())
    planned.push_back(each_its_own(axis));
  sort(mesh, planned);
}

void RankClasses::sort(const Mesh& mesh, const Planned& planned) {
  for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
    Coordinates coordinates = mesh.coordinates(rank);
    for (size_t axis = 0; axis < coordinates.size(); ++axis)
      coordinates[axis] = planned[axis][static_cast<size_t>(coordinates[axis])];
    representative_.push_back(mesh.rank(coordinates));
    members_[representative_.back()].push_back(rank);
  }
}

}  // namespace tessera::host
