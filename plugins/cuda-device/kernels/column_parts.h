// Sums over the rows of a matrix are made in parts, of so many rows each, and the parts then added in their order: so
// the additions depend on the shape alone.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tessera::cuda {

inline constexpr uint64_t kRowsOfPart = 128;
constexpr uint64_t num_parts(uint64_t rows) {
  return (rows + kRowsOfPart - 1) / kRowsOfPart;
}

/// Enqueues: sums[columns] (+)= the sum over the parts of parts[num_parts(rows), columns].
void add_parts(cudaStream_t stream, const float* parts, uint64_t rows, uint64_t columns, bool accumulates, float* sums);

}  // namespace tessera::cuda
