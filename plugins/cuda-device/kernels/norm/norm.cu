#include "cuda-device/kernels/norm/norm.h"

#include "cuda-device/kernels/launch.h"
#include "cuda-device/kernels/row_groups.cuh"

namespace tessera::cuda {
namespace {

// Layer norm with the whole row in registers: a block of threads has one row or several (row_groups.cuh), reads it
// once, and everything after that is arithmetic. So the variance can be made of the differences from the mean, in two
// passes over registers, with no cancellation and no second read.
//
// Backward: a block goes over the rows of one part with the sums of all columns in registers, and writes them once;
// parts are then added in order (column_parts.cu). Bound by memory: x and dy are read once, dx is written once.
template <class T, int kGroups, bool kIsVectors>
__global__ void __launch_bounds__(kRowThreads<kGroups>, 1)
    forward_rows(uint64_t num_rows, uint64_t columns, float epsilon, NormForward a) {
  using Row = RowPart<T, kGroups, kIsVectors>;
  const uint64_t r = uint64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  const Row row(r, num_rows, columns), parameter(0, 1, columns);
  const float inverse_columns = 1.0f / static_cast<float>(columns);
  typename Row::Values x, branch, sum_bias;
  row.load(a.x, x);
  row.load(a.branch, branch);
  parameter.load(a.sum_bias, sum_bias);
  Row::for_each([&](int g, int j) { x[g][j] = (x[g][j] + branch[g][j]) + sum_bias[g][j]; });
  if (a.sum) row.store(x, a.sum);
  float sum[1] = {}, squares[1] = {};
  Row::for_each([&](int g, int j) { sum[0] += x[g][j]; });
  sum_over_row(sum, 0);
  const float mean = sum[0] * inverse_columns;
  Row::for_each([&](int g, int j) {
    x[g][j] -= mean;
    if (row.has(g, j)) squares[0] = fmaf(x[g][j], x[g][j], squares[0]);
  });
  sum_over_row(squares, 1);
  const float inverse = 1.0f / sqrtf(fmaf(squares[0], inverse_columns, epsilon));
  if (threadIdx.x == 0 && r < num_rows) {
    if (a.mean) a.mean[r] = mean;
    if (a.inverse) a.inverse[r] = inverse;
  }
  if (!a.y) return;
  typename Row::Values weight, bias;
  parameter.load(a.weight, weight);
  parameter.load(a.bias, bias);
  Row::for_each([&](int g, int j) { x[g][j] = fmaf(x[g][j] * inverse, weight[g][j], bias[g][j]); });
  row.store(x, a.y);
}

// Writes to `part` the sums of the block: those of the rows it has at once, added one after another. All threads call
// it.
template <class T, int kGroups>
__device__ inline void write_part(float (&sums)[kGroups][kNumLanes<T>], uint64_t columns, float* part) {
  using Row = RowPart<T, kGroups, false>;
  if (blockDim.y > 1) {  // then kGroups is 1
    __shared__ float of_threads[kNumLanes<T>][kThreadsOfRows];
    __syncthreads();  // before, the last sums were read there
#pragma unroll
    for (int j = 0; j < kNumLanes<T>; ++j)
      of_threads[j][threadIdx.y * blockDim.x + threadIdx.x] = sums[0][j];
    __syncthreads();
    if (threadIdx.y > 0) return;
    for (unsigned y = 1; y < blockDim.y; ++y)
#pragma unroll
      for (int j = 0; j < kNumLanes<T>; ++j)
        sums[0][j] += of_threads[j][y * blockDim.x + threadIdx.x];
  }
  Row::for_each([&](int g, int j) {
    if (const unsigned c = Row::column(g, j); c < columns) part[c] = sums[g][j];
  });
}

// With n = norm(x): total = base + inverse (dy w - mean(dy w) - n mean(dy w n)), and of the block's rows the sums of
// dy n, of dy and, if kNumSums is 3, of total as it is stored.
template <class T, int kGroups, bool kIsVectors, int kNumSums>
__global__ void __launch_bounds__(kRowThreads<kGroups>, 1)
    backward_rows(uint64_t num_rows, uint64_t columns, uint64_t rows_of_part, NormBackward a) {
  using Row = RowPart<T, kGroups, kIsVectors>;
  const uint64_t begin = blockIdx.x * rows_of_part;
  const uint64_t end = begin + rows_of_part < num_rows ? begin + rows_of_part : num_rows;
  const float inverse_columns = 1.0f / static_cast<float>(columns);
  typename Row::Values sums[kNumSums] = {};
  unsigned turn = 0;
  for (uint64_t first = begin; first < end; first += blockDim.y, turn ^= 1) {
    const uint64_t r = first + threadIdx.y;
    const Row row(r, end, columns);
    typename Row::Values x, dy, weight, total;
    row.load(a.x, x);
    row.load(a.dy, dy);
    const float mean = r < end ? a.mean[r] : 0.0f, inverse = r < end ? a.inverse[r] : 0.0f;
    row.load(a.base, total);
    Row(0, 1, columns).load(a.weight, weight);
    Row::for_each([&](int g, int j) { x[g][j] = (x[g][j] - mean) * inverse; });
    if (a.weight) {
      float means[2] = {};
      Row::for_each([&](int g, int j) {  // dy is 0 beyond the row's end
        means[0] = fmaf(dy[g][j], weight[g][j], means[0]);
        means[1] = fmaf(dy[g][j] * weight[g][j], x[g][j], means[1]);
      });
      sum_over_row(means, turn);
      const float mean_gradient = means[0] * inverse_columns, projection = means[1] * inverse_columns;
      Row::for_each([&](int g, int j) {
        const float gradient = fmaf(dy[g][j], weight[g][j], -mean_gradient);
        total[g][j] = fmaf(inverse, fmaf(-x[g][j], projection, gradient), total[g][j]);
      });
      if (a.total) row.store(total, a.total);
      for (const GradientTarget& target : a.targets) {
        if (!target.to) continue;
        typename Row::Values added = {};
        if (target.accumulates) row.load(target.to, added);
        Row::for_each([&](int g, int j) { added[g][j] += total[g][j]; });
        row.store(added, target.to);
      }
    }
    Row::for_each([&](int g, int j) {
      sums[0][g][j] = fmaf(dy[g][j], x[g][j], sums[0][g][j]);
      sums[1][g][j] += dy[g][j];
      if constexpr (kNumSums == 3) sums[2][g][j] += to_float(from_float<T>(total[g][j]));
    });
  }
  if (!a.parts) return;
#pragma unroll
  for (int k = 0; k < kNumSums; ++k)
    write_part<T, kGroups>(sums[k], columns, a.parts + (uint64_t{gridDim.x} * k + blockIdx.x) * columns);
}

}  // namespace

void norm_forward(cudaStream_t stream, const ValueMatrix& shape, float epsilon, const NormForward& a) {
  with_rows(
      shape,
      [&]<class T, int kGroups, bool kIsVectors>(dim3 block) {
        launch(forward_rows<T, kGroups, kIsVectors>, blocks_for(shape.rows, block.y), block, 0, stream, shape.rows,
               shape.columns, epsilon, a);
      },
      a.x, a.branch, a.sum_bias, a.sum, a.weight, a.bias, a.y);
}

void norm_backward(cudaStream_t stream, const ValueMatrix& shape, uint32_t num_sums, const NormBackward& a) {
  with_rows(
      shape,
      [&]<class T, int kGroups, bool kIsVectors>(dim3 block) {
        const auto kernel =
            num_sums == 3 ? backward_rows<T, kGroups, kIsVectors, 3> : backward_rows<T, kGroups, kIsVectors, 2>;
        launch(kernel, static_cast<unsigned>(num_norm_parts(shape.rows)), block, 0, stream, shape.rows, shape.columns,
               rows_of_norm_part(shape.rows), a);
      },
      a.x, a.weight, a.dy, a.base, a.total, a.targets[0].to, a.targets[1].to);
}

void check_norm(const ValueMatrix& shape) {
  with_value_type(shape.dtype, [&](auto zero) { num_row_groups<decltype(zero)>(shape.columns); });
}

}  // namespace tessera::cuda
