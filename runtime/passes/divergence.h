// Axes whose ranks train parameters of their own (local SGD): their gradients are not summed over the axis.
#pragma once

#include <vector>

#include "mesh/mesh.h"
#include "model/model.h"
#include "program/program.h"

namespace tessera::host {

/// By axis: do its ranks train parameters of their own? Throws INVALID_ARGUMENT where the layout lets some trainable
/// parameters diverge and others not, or only some of their roles, or on an axis that does not split the batch: there
/// is one scale of the loss and one norm, so they are all one rank's or all the axis's.
std::vector<bool> divergent_axes(const Model& model, const Mesh& mesh, const Layout& layout);

/// The loss is scaled by 1/(tokens of the step), which makes gradients addends over all ranks. Ranks that train alone
/// get the gradient of their own tokens' mean: the scale times the ranks of every axis in `divergent`.
void scale_loss_of_own_tokens(Model& model, const Mesh& mesh, const std::vector<bool>& divergent);

}  // namespace tessera::host
