// Row and column operations on a team of threads. Rows and columns are cut by their number and that of the threads
// only.
#pragma once

#include <cstdint>

#include "cpu-device/kernels/parallel.h"
#include "cpu-device/kernels/rows.h"

namespace tessera::cpu {

/// Elements that a thread takes at least: below that, waking it costs more than it saves.
inline constexpr uint64_t kElementGrain = 4096;
/// Columns are cut at multiples of this, so that no two threads write to one cache line.
inline constexpr uint64_t kColumnGrain = 64;

/// Rows of `num_columns` elements that make up about kElementGrain.
inline uint64_t row_grain(uint64_t num_columns) {
  return (kElementGrain + num_columns - 1) / num_columns;
}

/// out[i] (+)= x[i].
void add_or_copy(const float* x, uint64_t num_elements, bool accumulate, float* out, int num_threads);

/// sums[c] (+)= sum over the dense rows r of x[r][c].
void sum_columns(const float* x, uint64_t num_rows, uint64_t num_columns, bool accumulate, float* sums,
                 int num_threads);

}  // namespace tessera::cpu
