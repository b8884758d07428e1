// Sums over the rows of a matrix are made in parts, of so many rows each, and the parts then added in their order: so
// the additions depend on the shape alone.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace tessera::cuda {

inline constexpr uint64_t kRowsOfPart = 128;
constexpr uint64_t num_parts(uint64_t rows) {
  return (rows + kRowsOfPart - 1) / kRowsOfPart;
}

/// A sum of columns, and whether it is added to.
struct ColumnSum {
  float* to = nullptr;  // null: left out
  bool accumulates = false;
};
inline constexpr size_t kMaxColumnSums = 3;

/// Enqueues, for each k of at most kMaxColumnSums sums: sums[k].to[columns] (+)= the sum over the parts of
/// parts[k][num_parts, columns].
void add_parts(cudaStream_t stream, const float* parts, uint64_t num_parts, uint64_t columns,
               std::initializer_list<ColumnSum> sums);

}  // namespace tessera::cuda
