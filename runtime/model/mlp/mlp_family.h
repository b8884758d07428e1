// What `--model` says of a multilayer perceptron.
#pragma once

#include "model/architecture.h"

namespace tessera::host {

/// mlp:INPUTS,HIDDEN,...,CLASSES and the same with :relu or :gelu.
const ArchitectureFamily& mlp_family();

}  // namespace tessera::host
