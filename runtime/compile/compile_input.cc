// The order in which passes run (decision 0003).

#include "compile/compile_input.h"

#include <algorithm>
#include <tuple>

namespace tessera::host {

std::vector<StrategyOnAxis> pass_order(std::span<const StrategyOnAxis> strategies) {
  std::vector<StrategyOnAxis> order(strategies.begin(), strategies.end());
  std::ranges::sort(order, {}, [](const StrategyOnAxis& s) {
    const bool shards = (s.interface->flags & TSR_STRATEGY_SHARDS_HOMES) != 0;
    // Shards before sums: with replicate=2,shard=4, ddp then sums slices, not whole gradients. Innermost axis first:
    // nested sums can equal the flat canonical sum in that order only.
    return std::tuple(s.interface->role, !shards, -s.axis);
  });
  return order;
}

}  // namespace tessera::host
