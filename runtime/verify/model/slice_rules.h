// What ranks that are not walked get of sums that are scattered, and of exchanges.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "verify/model/walked_ranks.h"

namespace tessera::host {

/// What ranks[i] gets of a collective that gives each rank of its group another slice.
using SliceOf = std::function<ContentParts(size_t i)>;

/// The first of the ranks represented by `walk` that gets a slice of parameters, or of their gradients, other than
/// those it keeps in the places in which the walked rank keeps its own. Nothing: all get their own, or what none of
/// them keeps.
std::optional<int> rank_with_other_slice(const WalkedRanks& walked, RankWalk& walk, std::span<const int> ranks,
                                         const SliceOf& slice_of);

}  // namespace tessera::host
