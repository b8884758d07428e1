#include "cpu-device/kernels/bf16/rows.h"

#include "cpu-device/kernels/parallel_rows.h"

namespace tessera::cpu {
namespace {

// Rows that are widened at a time, kColumnGrain columns of each: 16 KiB.
constexpr uint64_t kRows = 64;

void sum_narrow_columns(const uint16_t* x, uint64_t num_rows, uint64_t num_columns, uint64_t stride, bool accumulate,
                        float* sums) {
  const auto column_sums = TESSERA_SIMD_CHOOSE(column_sums);
  std::array<float, kRows * kColumnGrain> rows;
  for (uint64_t first = 0; first < num_rows; first += kRows) {
    const uint64_t count = std::min(kRows, num_rows - first);
    for (uint64_t r = 0; r < count; ++r)
      widen(x + (first + r) * stride, num_columns, rows.data() + r * num_columns);
    column_sums(rows.data(), count, num_columns, num_columns, accumulate || first > 0, sums);
  }
}

}  // namespace

void sum_columns(const uint16_t* x, uint64_t num_rows, uint64_t num_columns, bool accumulate, float* sums,
                 int num_threads) {
  parallel_for(num_threads, num_columns, kColumnGrain, [&](uint64_t begin, uint64_t end, int) {
    for (; begin < end; begin += kColumnGrain)
      sum_narrow_columns(x + begin, num_rows, std::min(kColumnGrain, end - begin), num_columns, accumulate,
                         sums + begin);
  });
}

}  // namespace tessera::cpu
