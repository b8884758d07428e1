// Examples of a CSV file.
#pragma once

#include <string>

#include "config/train_config.h"
#include "data/examples/example_table.h"

namespace tessera::host {

/// Reads a whole file, plain or gzip: a line for each example, numbers separated by commas, semicolons or tabs, the
/// label in the first or last column, an integer in [0, num_classes). Line 1 may be a header: its label cell is not a
/// number, and neither is another cell, or the others count the columns (0, 1, 2, ... as pandas writes them); or all of
/// three or more cells count them. Empty lines at the end are left out. Holds 4 bytes a feature in memory. Throws
/// INVALID_ARGUMENT naming file, line and column, UNSUPPORTED for UTF-16.
ExampleTable read_csv(const std::string& path, const ExampleShape& shape, LabelColumn label);

}  // namespace tessera::host
