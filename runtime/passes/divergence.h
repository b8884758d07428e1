// Axes whose ranks train parameters of their own (local SGD): their gradients are not summed over the axis.
#pragma once

#include <vector>

#include "mesh/mesh.h"
#include "model/model.h"
#include "program/program.h"

namespace tessera::host {

/// For each axis: do its ranks train parameters of their own? Throws INVALID_ARGUMENT where the layout lets only some
/// trainable parameters diverge, or only some of their roles, or parameters on an axis that does not split the batch:
/// there is one scale of the loss and one norm, so either all parameters diverge or none does.
std::vector<bool> divergent_axes(const Model& model, const Mesh& mesh, const Layout& layout);

/// The loss is scaled by 1/(tokens of the step), so that gradients are partial sums over all ranks. Ranks that train
/// alone need the gradient of the mean over their own tokens: multiplies the scale by the ranks of every axis in
/// `divergent`.
void scale_loss_of_own_tokens(Model& model, const Mesh& mesh, const std::vector<bool>& divergent);

}  // namespace tessera::host
