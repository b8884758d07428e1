// What `--model` and config.json say of GPT-2.
#pragma once

#include "model/architecture.h"

namespace tessera::host {

/// gpt2, gpt2_medium, gpt2_large, gpt2_xl, and folders with "model_type": "gpt2".
const ArchitectureFamily& gpt2_family();

/// How the files of a GPT-2 name its tensors.
TensorNames gpt2_tensor_names();

}  // namespace tessera::host
