// Refuses strategies that cannot be combined, by the layouts that they declare, before any pass runs. For example
// --mesh a=2,b=2 --strategy a=fsdp,b=zero3 gives two entries {batch axis, flat, value} for each parameter:
//
//     --strategy a=fsdp,b=zero3: both split the storage of parameters, and only one axis may; put the 4 ranks on ...
//
// Comparing layout entries needs no table of pairs of plugins, and covers third-party strategies and options that
// change what a strategy splits (decision 0024). The second of the passes could only report a program that it did not
// expect. Cost: n log n in the entries of the layout, times the few that split one dim of one parameter.

#include "compile/conflicts.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/concat.h"
#include "config/default_plugins.h"
#include "config/usage_error.h"

namespace tessera::host {
namespace {

std::string_view what_is_split(uint32_t splits) {
  switch (splits) {
    case TSR_SPLITS_LAYERS:
      return "the layers of the model";
    case TSR_SPLITS_TENSORS:
      return "the tensors of the model";
    default:
      return "the storage of parameters";
  }
}

[[noreturn]] void refuse(const Mesh& mesh, std::span<const StrategyOnAxis> strategies, int a, int b) {
  const auto [outer, inner] = std::minmax(a, b);
  const Axis &first = mesh.axes()[outer], &second = mesh.axes()[inner];
  const auto plugin = [&](int axis) { return std::ranges::find(strategies, axis, &StrategyOnAxis::axis)->name; };
  const int num_ranks = first.num_ranks * second.num_ranks;
  throw UsageError(concat("--strategy ", first.name, "=", plugin(outer), ",", second.name, "=", plugin(inner),
                          ": both split ", what_is_split(first.splits), ", and only one axis may; put the ", num_ranks,
                          " ranks on one axis (", second.name, "=", num_ranks, "), or give the other axis ",
                          kDefaultStrategy, " (", first.name, "=", kDefaultStrategy, ",", second.name, "=",
                          plugin(inner), ")"));
}

}  // namespace

void refuse_conflicts(const Mesh& mesh, const Layout& layout, std::span<const StrategyOnAxis> strategies) {
  std::map<std::tuple<uint32_t, int, int>, std::vector<const LayoutEntry*>> entries;  // by splits, parameter, dim
  for (const LayoutEntry& split : layout) {
    if (split.kind != TSR_LAYOUT_SPLIT) continue;
    auto& alike = entries[{mesh.axes()[split.axis].splits, split.parameter, split.dim}];
    for (const LayoutEntry* other : alike)
      if (other->axis != split.axis && (other->roles & split.roles)) refuse(mesh, strategies, other->axis, split.axis);
    alike.push_back(&split);
  }
}

}  // namespace tessera::host
