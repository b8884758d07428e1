// A model whose gradients overflow in fp16.
#pragma once

#include "support/temp_folder.h"

namespace tessera::testing {

/// Writes the golden model with the last norm's weight `factor` times as large, and so all gradients before it.
void write_golden_model_with_large_gradients(const TempFolder& folder, float factor);

}  // namespace tessera::testing
