// The rate of a device's matrix product: what all else is compared with.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::testing {

/// TFLOP/s of bf16 products of matrices of `extent` x `extent` random elements, through the plugin at `path`: median of
/// ten timed groups of ten, after warm-up. Throws what the plugin throws.
double measure_matrix_rate(const std::string& path, int64_t extent);

}  // namespace tessera::testing
