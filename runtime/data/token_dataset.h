// Tokens as a Dataset.
#pragma once

#include <cstdint>
#include <memory>

#include "data/dataset.h"
#include "data/token_source.h"

namespace tessera::host {

/// The dataset of a model with `vocab` tokens. Readers follow batch_order.h.
std::unique_ptr<Dataset> token_dataset(std::unique_ptr<TokenSource> source, int64_t vocab);

}  // namespace tessera::host
