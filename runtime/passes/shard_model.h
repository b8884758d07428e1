// The model as one rank computes it, where axes split tensors.
#pragma once

#include "mesh/mesh.h"
#include "model/model.h"
#include "program/program.h"

namespace tessera::host {

/// The model with the local extents of the rank at `coordinates`: parameters, values and ops keep their part of every
/// dim that the layout splits over an axis that splits tensors; parameters know which elements of the whole they are.
/// With the vocabulary split, the loss is three segments (head_logits, softmax_stats, loss_grad). A layout that splits
/// nothing gives the model itself. Storage splits (flat, dim -1) are not part of it. Throws INVALID_ARGUMENT for a dim
/// that does not divide, that is split for some parameters only, or twice.
Model shard_model(const Model& model, const Mesh& mesh, const Coordinates& coordinates, const Layout& layout);

}  // namespace tessera::host
