// What a user should know of the examples before a classifier is trained on them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/examples/example_source.h"

namespace tessera::host {

/// A sentence each: labels of one class alone, classes without an example, and steps that take all examples and more.
/// Empty when nothing is odd.
std::vector<std::string> example_warnings(const ExampleSource& source, int64_t examples_per_step);

}  // namespace tessera::host
