// Axes on which parameters diverge, as in local SGD (decision 0014). The loss is scaled by 1/(tokens of the step), so
// that gradients are partial sums whose total over all ranks is the gradient of the mean. On an axis of n ranks that
// never sum, each rank's gradient would be n times too small. With island=2, dp=2 and 32 tokens a rank:
//
//     layout                               scale of the loss    the sum of gradients is that of the mean over
//     nothing diverges                     1/128                all 128 tokens
//     all parameters diverge on island     2/128                the 64 tokens of an island
//
//     the layout of axis island: 15 of 16 trainable parameters diverge; all must, or none
//
// Invariant: strategies only sum, which verify_placement relies on. That is why the factor is applied here and not by
// them. Cost: linear in the entries of the layout, the parameters and the segments.

#include "passes/divergence.h"

#include <algorithm>

#include "tessera/error.hpp"

namespace tessera::host {
namespace {

void check_entry(const Model& model, const Mesh& mesh, const LayoutEntry& split) {
  const std::string what =
      "the layout of axis " + mesh.axes()[split.axis].name + ": " + model.parameters[split.parameter].name;
  if (mesh.axes()[split.axis].splits != TSR_SPLITS_BATCH)
    throw Error(TSR_E_INVALID_ARGUMENT, what + " diverges; only an axis that splits the batch may let it");
  if ((split.roles & TSR_ALL_HOME_ROLES) != TSR_ALL_HOME_ROLES)
    throw Error(TSR_E_INVALID_ARGUMENT, what + " diverges in some roles; it must diverge in all or none");
}

}  // namespace

std::vector<bool> divergent_axes(const Model& model, const Mesh& mesh, const Layout& layout) {
  std::vector<ptrdiff_t> num_diverging(mesh.axes().size(), 0);
  for (const LayoutEntry& split : layout) {
    if (split.kind != TSR_LAYOUT_DIVERGENT) continue;
    check_entry(model, mesh, split);
    if (model.parameters[split.parameter].trainable) ++num_diverging[split.axis];
  }
  const auto num_trainable = std::ranges::count(model.parameters, true, &Parameter::trainable);
  std::vector<bool> divergent;
  for (size_t axis = 0; axis < num_diverging.size(); ++axis) {
    if (num_diverging[axis] != 0 && num_diverging[axis] != num_trainable)
      throw Error(TSR_E_INVALID_ARGUMENT,
                  "the layout of axis " + mesh.axes()[axis].name + ": " + std::to_string(num_diverging[axis]) + " of " +
                      std::to_string(num_trainable) + " trainable parameters diverge; all must, or none");
    divergent.push_back(num_diverging[axis] != 0);
  }
  return divergent;
}

void scale_loss_of_own_tokens(Model& model, const Mesh& mesh, const std::vector<bool>& divergent) {
  double factor = 1;
  for (size_t axis = 0; axis < divergent.size(); ++axis)
    if (divergent[axis]) factor *= mesh.axes()[axis].num_ranks;
  for (Segment& segment : model.segments)
    segment.op.attributes[TSR_ATTR_SCALE] *= factor;
}

}  // namespace tessera::host
