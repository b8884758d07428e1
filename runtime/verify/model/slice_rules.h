// What ranks that are not walked get of a sum that is scattered.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "verify/model/collective_rules.h"

namespace tessera::host {

/// `sum` is the operand of a reduce_scatter, of which ranks[i] gets the elements from offsets[i] up to offsets[i + 1].
/// The first of the ranks that `walk` stands for of whose gradients its slice is not: where the walked rank keeps the
/// parameters of its own slice, the other rank keeps those of its. Nothing: each slice is right, or of no home alone.
std::optional<int> rank_with_other_slice(const WalkedRanks& walked, RankWalk& walk, std::span<const int> ranks,
                                         const ContentParts& sum, const std::vector<uint64_t>& offsets);

}  // namespace tessera::host
