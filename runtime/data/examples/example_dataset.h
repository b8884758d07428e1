// Examples as a Dataset.
#pragma once

#include <memory>

#include "data/dataset.h"
#include "data/examples/example_source.h"

namespace tessera::host {

/// The dataset of a classifier. Readers follow example_order.h.
std::unique_ptr<Dataset> example_dataset(std::unique_ptr<ExampleSource> source);

}  // namespace tessera::host
