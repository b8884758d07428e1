// Every cut is by extents and team alone, and no sum crosses a cut: results do not depend on the number of threads.
#include "cpu-device/kernels/parallel_rows.h"

#include <cstring>

namespace tessera::cpu {

void add_or_copy(const float* x, uint64_t num_elements, bool accumulate, float* out, int num_threads) {
  const auto add = TESSERA_SIMD_CHOOSE(add);
  parallel_for(num_threads, num_elements, kElementGrain, [&](uint64_t begin, uint64_t end, int) {
    if (accumulate)
      add(out + begin, x + begin, end - begin, out + begin);
    else
      std::memcpy(out + begin, x + begin, (end - begin) * sizeof(float));
  });
}

void sum_columns(const float* x, uint64_t num_rows, uint64_t num_columns, bool accumulate, float* sums,
                 int num_threads) {
  const auto column_sums = TESSERA_SIMD_CHOOSE(column_sums);
  parallel_for(num_threads, num_columns, kColumnGrain, [&](uint64_t begin, uint64_t end, int) {
    column_sums(x + begin, num_rows, end - begin, num_columns, accumulate, sums + begin);
  });
}

}  // namespace tessera::cpu
