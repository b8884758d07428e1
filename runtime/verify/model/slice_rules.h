// What ranks that are not walked get of sums that are scattered, and of exchanges.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "verify/model/walked_ranks.h"

namespace tessera::host {

/// What ranks[i] gets of a collective that gives each rank of its group another slice.
using SliceOf = std::function<ContentParts(size_t i)>;

/// The first of the ranks that `walk` stands for whose slice is not of what it owns: where the walked rank keeps the
/// parameters of its own slice, or of whose gradients it is, the other rank must keep those of its. Nothing: each slice
/// is right, or of no home alone.
std::optional<int> rank_with_other_slice(const WalkedRanks& walked, RankWalk& walk, std::span<const int> ranks,
                                         const SliceOf& slice_of);

}  // namespace tessera::host
