// Tokens as a Dataset.
#pragma once

#include <cstdint>
#include <memory>

#include "data/dataset.h"
#include "data/token_source.h"

namespace tessera::host {

/// The dataset of a model with `vocab` tokens. A reader walks as batch_order.h says.
std::unique_ptr<Dataset> token_dataset(std::unique_ptr<TokenSource> source, int64_t vocab);

}  // namespace tessera::host
