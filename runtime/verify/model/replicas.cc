// A rank's own walk accepts an average of what may diverge, and what a call makes of a gradient: strategies choose
// these. Where ranks are replicas over another axis, they choose alike. In pp=2,x=2 with a strategy on x
// that lets parameters diverge, both stages keep a tied embedding:
//
//     the model: wte.weight is averaged on rank 0 and not on rank 2, which keeps the same elements
//
// Replicas are ranks at the same coordinates of the axes that let parameters diverge and, of a part of a parameter, of
// those that split tensors; slices have other elements. Cost: n log n in what is kept, where anything is averaged or
// made.

#include "verify/model/replicas.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

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

/// Of ranges over the same parameter: the first two that overlap and have other origins.
std::optional<std::pair<OfRank, OfRank>> first_difference(std::vector<OfRank> ranges) {
  std::ranges::stable_sort(ranges, {}, [](const OfRank& r) { return r.elements.begin; });
  std::array<const OfRank*, 3> last{};  // by origin: the range that reaches furthest
  for (const OfRank& range : ranges) {
    const auto own = static_cast<size_t>(range.elements.origin);
    for (size_t origin = 0; origin < last.size(); ++origin)
      if (origin != own && last[origin] && last[origin]->elements.end > range.elements.begin)
        return std::pair(*last[origin], range);
    if (!last[own] || last[own]->elements.end < range.elements.end) last[own] = &range;
  }
  return std::nullopt;
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
    const auto& [special, other] = *found;
    Content content{ContentKind::state};
    content.index = special.elements.parameter;
    content.role = special.elements.role;
    const std::string text =
        concat(special.walk->text(content), " is ", word(special.elements.origin), " on rank ", special.walk->rank(),
               " and not on rank ", other.walk->rank(), ", which keeps the same elements: their bits would differ");
    context.add(text, text);
  }
}

}  // namespace tessera::host
