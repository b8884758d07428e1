// The model with the extents of one rank, where axes split tensors.
#pragma once

#include "mesh/mesh.h"
#include "model/model.h"
#include "program/program.h"

namespace tessera::host {

/// The model with the local extents of the rank at `coordinates`: parameters, values and ops keep their part of every
/// dim that the layout splits over an axis that splits tensors; parameters know which elements of the whole they are.
/// With the vocabulary split, the loss becomes three segments (head_logits, softmax_stats, loss_grad). A layout that
/// splits nothing gives the model itself. Splits of storage (flat, dim -1) are ignored. Throws INVALID_ARGUMENT for a
/// dim that does not divide, is split in some parameters only, or is split twice.
Model shard_model(const Model& model, const Mesh& mesh, const Coordinates& coordinates, const Layout& layout);

}  // namespace tessera::host
