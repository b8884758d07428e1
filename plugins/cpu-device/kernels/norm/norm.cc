// Layer norm on a team. Rows are shared out where a row's result is its own; columns where rows are summed, so that a
// sum over rows is one thread's and in one order, whatever the team.
#include "cpu-device/kernels/norm/norm.h"

#include "cpu-device/kernels/norm/norm_rows.h"
#include "cpu-device/kernels/parallel_rows.h"

namespace tessera::cpu {

void norm_forward(NormShape shape, const float* x, const float* weight, const float* bias, float epsilon, float* y,
                  float* mean, float* inverse_deviation, int num_threads) {
  const auto statistics_of = TESSERA_SIMD_CHOOSE(norm_statistics);
  const auto norm = TESSERA_SIMD_CHOOSE(norm_row);
  parallel_for(num_threads, shape.rows, row_grain(shape.columns), [&](uint64_t begin, uint64_t end, int) {
    for (uint64_t r = begin; r < end; ++r) {
      const float* row = x + r * shape.columns;
      const NormStatistics statistics = statistics_of(row, shape.columns, epsilon);
      if (mean) mean[r] = statistics.mean;
      if (inverse_deviation) inverse_deviation[r] = statistics.inverse_deviation;
      if (y) norm(row, statistics, weight, bias, shape.columns, y + r * shape.columns);
    }
  });
}

void norm_backward_input(NormShape shape, const NormForBackward& kept, const float* weight, const float* dy,
                         const float* base, float* dx, int num_threads) {
  const auto backward = TESSERA_SIMD_CHOOSE(norm_row_backward);
  parallel_for(num_threads, shape.rows, row_grain(shape.columns), [&](uint64_t begin, uint64_t end, int) {
    for (uint64_t r = begin; r < end; ++r) {
      const uint64_t row = r * shape.columns;
      backward(kept.x + row, {kept.mean[r], kept.inverse_deviation[r]}, weight, dy + row, base ? base + row : nullptr,
               shape.columns, dx + row);
    }
  });
}

void norm_backward_weight(NormShape shape, const NormForBackward& kept, const float* dy, bool accumulate,
                          float* dweight, int num_threads) {
  const auto weight_gradient = TESSERA_SIMD_CHOOSE(norm_weight_gradient);
  parallel_for(num_threads, shape.columns, kColumnGrain, [&](uint64_t begin, uint64_t end, int) {
    weight_gradient(kept.x + begin, kept.mean, kept.inverse_deviation, dy + begin, shape.rows, end - begin,
                    shape.columns, accumulate, dweight + begin);
  });
}

}  // namespace tessera::cpu
