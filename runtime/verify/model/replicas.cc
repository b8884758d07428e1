// A rank's own walk accepts an average of what may diverge, and what a call makes of a gradient: strategies choose
// these. Where ranks are replicas over another axis, they choose alike. In pp=2,x=2 with a strategy on x
// that lets parameters diverge, both stages keep a tied embedding:
//
//     the model: wte.weight is averaged on rank 0 and not on rank 2, which keeps the same elements
//
// Calls are alike that use the same elements of parameters and leave them in the same places: a strategy that copies
// another part of a gradient on each rank, and lets a call work on it, has other bits on each.
//
// Replicas are ranks at the same coordinates of the axes that let parameters diverge and, of a part of a parameter, of
// those that split tensors; slices have other elements. Cost: n log n in what is kept, where anything is averaged or
// made.

#include "verify/model/replicas.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/concat.h"
#include "verify/model/rank_walk.h"

namespace tessera::host {
namespace {

struct OfRank {
  const RankWalk* walk;
  KeptElements elements;
};
using Replicas = std::tuple<int, uint32_t, int, Coordinates>;

std::string_view word(Origin origin) {
  return origin == Origin::averaged ? "averaged" : "made by a call";
}

/// The coordinates at which ranks keep other elements, or others' bits, 0 on the other axes.
Coordinates place_of(const RankWalk& walk, int parameter) {
  const Program& program = walk.program();
  uint32_t axes = walk.axes_of_states().replicas;
  if (program.model->parameters[static_cast<size_t>(parameter)].part) axes |= walk.axes_of_states().parts;
  Coordinates place = program.coordinates;
  for (size_t axis = 0; axis < place.size(); ++axis)
    if ((axes >> axis & 1u) == 0) place[axis] = 0;
  return place;
}

/// Of ranges over the same parameter: the first two that overlap and are not alike.
std::optional<std::pair<OfRank, OfRank>> first_difference(std::vector<OfRank> ranges) {
  std::ranges::stable_sort(ranges, {}, [](const OfRank& r) { return r.elements.begin; });
  std::vector<const OfRank*> furthest;  // of those that are alike: the range that reaches furthest
  for (const OfRank& range : ranges) {
    const OfRank** own = nullptr;
    for (const OfRank*& other : furthest) {
      if (other->elements.is_alike(range.elements))
        own = &other;
      else if (other->elements.end > range.elements.begin)
        return std::pair(*other, range);
    }
    if (!own)
      furthest.push_back(&range);
    else if ((*own)->elements.end < range.elements.end)
      *own = &range;
  }
  return std::nullopt;
}

std::string difference(const OfRank& special, const OfRank& other) {
  Content content{ContentKind::state};
  content.index = special.elements.parameter;
  content.role = special.elements.role;
  const std::string start =
      concat(special.walk->text(content), " is ", word(special.elements.origin), " on rank ", special.walk->rank());
  if (special.elements.origin == Origin::made && other.elements.origin == Origin::made)
    return concat(start, " and on rank ", other.walk->rank(), ", which keeps the same elements, of other operands",
                  ": their bits would differ; give calls the same elements on all ranks");
  return concat(start, " and not on rank ", other.walk->rank(),
                ", which keeps the same elements: their bits would differ");
}

}  // namespace

void compare_replicas(const std::map<int, RankWalk>& walks, WalkContext& context) {
  const auto is_special = [](const KeptElements& e) { return e.origin != Origin::named; };
  if (std::ranges::none_of(walks, [&](const auto& w) { return std::ranges::any_of(w.second.kept(), is_special); }))
    return;
  std::map<Replicas, std::vector<OfRank>> by_place;
  for (const auto& [rank, walk] : walks)
    for (const KeptElements& e : walk.kept())
      by_place[{e.parameter, e.role, e.buffer, place_of(walk, e.parameter)}].push_back({&walk, e});
  for (auto& [place, ranges] : by_place) {
    auto found = first_difference(std::move(ranges));
    if (!found) continue;
    if (found->first.elements.origin == Origin::named) std::swap(found->first, found->second);
    const std::string text = difference(found->first, found->second);
    context.add(text, text);
  }
}

}  // namespace tessera::host
