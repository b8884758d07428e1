// A multilayer perceptron for classification, as units and segments.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/model.h"
#include "model/model_builder.h"
#include "tessera/device.h"

namespace tessera::host {

struct MlpConfig {
  std::vector<int64_t> widths;           ///< features, hidden layers, classes: two or more
  int activation = TSR_ACTIVATION_RELU;  ///< after every layer but the last: RELU or GELU_TANH

  int64_t num_layers() const { return static_cast<int64_t>(widths.size()) - 1; }
  bool operator==(const MlpConfig&) const = default;
};

/// Segments, in forward order: layers.0 | layers.1 | ... | loss; each layer is a unit and a block. Inputs: features
/// [batch, widths.front()] and labels [batch]. `shape.seq` is 0.
Model make_mlp(const MlpConfig& config, const BatchShape& shape);

/// Reads "mlp:784,256,10", "mlp:784,256,10:gelu" and the like; INPUTS,HIDDEN,...,CLASSES with any number of hidden
/// layers, also none. Throws INVALID_ARGUMENT for what is not a list of widths, for a single class, and for an unknown
/// activation.
MlpConfig parse_mlp(std::string_view name);

}  // namespace tessera::host
