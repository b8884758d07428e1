// Warnings about examples before training a classifier.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/examples/example_source.h"

namespace tessera::host {

/// One sentence for each of these: labels of one class only, classes without an example, steps that take all examples
/// or more. Empty when nothing is suspicious.
std::vector<std::string> example_warnings(const ExampleSource& source, int64_t examples_per_step);

}  // namespace tessera::host
