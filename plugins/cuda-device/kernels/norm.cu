#include "cuda-device/kernels/norm.h"

#include "cuda-device/kernels/column_parts.cuh"
#include "cuda-device/kernels/row_groups.cuh"
#include "cuda-device/launch.h"

namespace tessera::cuda {
namespace {

// One block a row. Mean and variance are made of the values in registers, in two passes.
template <int kThreads, class T>
__global__ void __launch_bounds__(kThreads) forward_rows(RowShape shape, float epsilon, NormForward a) {
  constexpr int kLanes = kNumLanes<T>;
  const uint64_t row = blockIdx.x, offset = row * shape.columns;
  const float inverse_columns = 1.0f / static_cast<float>(shape.columns);
  float x[kGroupsOfThread][kLanes] = {};
  float sum = 0.0f;
#pragma unroll
  for (int g = 0; g < kGroupsOfThread; ++g) {
    const uint64_t group = threadIdx.x + g * kThreads;
    if (!shape.has_group<T>(group)) continue;
    load_group(shape, static_cast<const T*>(a.x) + offset, group, x[g]);
    if (a.branch) {
      float branch[kLanes], bias[kLanes];
      load_group(shape, static_cast<const T*>(a.branch) + offset, group, branch);
      load_group(shape, static_cast<const T*>(a.sum_bias), group, bias);
#pragma unroll
      for (int j = 0; j < kLanes; ++j)
        x[g][j] = (x[g][j] + branch[j]) + bias[j];
      store_group(shape, x[g], static_cast<T*>(a.sum) + offset, group);
    }
#pragma unroll
    for (int j = 0; j < kLanes; ++j)
      sum += x[g][j];
  }
  const float mean = block_sum<kThreads>(sum) * inverse_columns;
  float squares = 0.0f;
#pragma unroll
  for (int g = 0; g < kGroupsOfThread; ++g)
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
      const float deviation = x[g][j] - mean;
      if (uint64_t{threadIdx.x + g * kThreads} * kLanes + j < shape.columns)
        squares = fmaf(deviation, deviation, squares);
    }
  const float inverse = 1.0f / sqrtf(fmaf(block_sum<kThreads>(squares), inverse_columns, epsilon));
  if (threadIdx.x == 0 && a.mean) a.mean[row] = mean;
  if (threadIdx.x == 0 && a.inverse) a.inverse[row] = inverse;
  if (!a.y) return;
#pragma unroll
  for (int g = 0; g < kGroupsOfThread; ++g) {
    const uint64_t group = threadIdx.x + g * kThreads;
    if (!shape.has_group<T>(group)) continue;
    float weight[kLanes], bias[kLanes], y[kLanes];
    load_group(shape, static_cast<const T*>(a.weight), group, weight);
    load_group(shape, static_cast<const T*>(a.bias), group, bias);
#pragma unroll
    for (int j = 0; j < kLanes; ++j)
      y[j] = fmaf((x[g][j] - mean) * inverse, weight[j], bias[j]);
    store_group(shape, y, static_cast<T*>(a.y) + offset, group);
  }
}

struct InputGradient {
  NormKept kept;
  const void* weight;
  const void* dy;
  const void* base;
  void* total;
  GradientTarget targets[2];
};

// dx = inverse (dy w - mean(dy w) - n mean(dy w n)), n = norm(x).
template <int kThreads, class T>
__global__ void __launch_bounds__(kThreads) backward_rows(RowShape shape, InputGradient a) {
  constexpr int kLanes = kNumLanes<T>;
  const uint64_t row = blockIdx.x, offset = row * shape.columns;
  const float inverse_columns = 1.0f / static_cast<float>(shape.columns);
  const float mean = a.kept.mean[row], inverse = a.kept.inverse[row];
  float normed[kGroupsOfThread][kLanes], scaled[kGroupsOfThread][kLanes];
  float sum = 0.0f, projection = 0.0f;
#pragma unroll
  for (int g = 0; g < kGroupsOfThread; ++g) {
    const uint64_t group = threadIdx.x + g * kThreads;
    if (!shape.has_group<T>(group)) continue;
    float weight[kLanes];
    load_group(shape, static_cast<const T*>(a.kept.x) + offset, group, normed[g]);
    load_group(shape, static_cast<const T*>(a.dy) + offset, group, scaled[g]);
    load_group(shape, static_cast<const T*>(a.weight), group, weight);
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
      normed[g][j] = (normed[g][j] - mean) * inverse;
      scaled[g][j] *= weight[j];  // 0 beyond the row's end
      sum += scaled[g][j];
      projection = fmaf(scaled[g][j], normed[g][j], projection);
    }
  }
  sum = block_sum<kThreads>(sum) * inverse_columns;
  projection = block_sum<kThreads>(projection) * inverse_columns;
#pragma unroll
  for (int g = 0; g < kGroupsOfThread; ++g) {
    const uint64_t group = threadIdx.x + g * kThreads;
    if (!shape.has_group<T>(group)) continue;
    float total[kLanes] = {};
    if (a.base) load_group(shape, static_cast<const T*>(a.base) + offset, group, total);
#pragma unroll
    for (int j = 0; j < kLanes; ++j)
      total[j] += inverse * (scaled[g][j] - sum - normed[g][j] * projection);
    if (a.total) store_group(shape, total, static_cast<T*>(a.total) + offset, group);
    for (const GradientTarget& target : a.targets) {
      if (!target.to) continue;
      float added[kLanes] = {};
      if (target.accumulates) load_group(shape, static_cast<const T*>(target.to) + offset, group, added);
#pragma unroll
      for (int j = 0; j < kLanes; ++j)
        added[j] += total[j];
      store_group(shape, added, static_cast<T*>(target.to) + offset, group);
    }
  }
}

template <int kNum, class T>
__global__ void __launch_bounds__(kPartThreads)
    weight_parts(NormKept kept, const T* __restrict__ dy, uint64_t rows, uint64_t vectors_of_row,
                 float* __restrict__ of_weight, float* __restrict__ of_bias) {
  const PartThread thread = part_thread(rows);
  const T* const x = static_cast<const T*>(kept.x);
  float weight_sums[kNum] = {}, bias_sums[kNum] = {};
  if (thread.vector < vectors_of_row) {
#pragma unroll 4
    for (uint64_t row = thread.first; row < thread.end; row += kRowsAtOnce) {
      float values[kNum], gradient[kNum];
      load<kNum>(x, row * vectors_of_row + thread.vector, values);
      load<kNum>(dy, row * vectors_of_row + thread.vector, gradient);
      const float mean = kept.mean[row], inverse = kept.inverse[row];
#pragma unroll
      for (int j = 0; j < kNum; ++j) {
        weight_sums[j] = fmaf(gradient[j], (values[j] - mean) * inverse, weight_sums[j]);
        bias_sums[j] += gradient[j];
      }
    }
  }
  write_part<kNum>(thread, weight_sums, vectors_of_row, of_weight);
  __syncthreads();  // the sums of both meet in the same memory
  write_part<kNum>(thread, bias_sums, vectors_of_row, of_bias);
}

template <class T, class... Pointers>
RowShape row_shape(const ValueMatrix& shape, Pointers... operands) {
  return {shape.columns, shape.columns % kNumLanes<T> == 0 && (starts_at_multiple(operands, kVectorBytes) && ...)};
}

}  // namespace

void norm_forward(cudaStream_t stream, const ValueMatrix& shape, float epsilon, const NormForward& a) {
  with_value_type(shape.dtype, [&](auto zero) {
    using T = decltype(zero);
    const RowShape rows = row_shape<T>(shape, a.x, a.branch, a.sum_bias, a.sum, a.weight, a.bias, a.y);
    with_row_threads<T>(shape.columns, [&]<int kThreads>() {
      launch(forward_rows<kThreads, T>, static_cast<unsigned>(shape.rows), kThreads, 0, stream, rows, epsilon, a);
    });
  });
}

void norm_backward_input(cudaStream_t stream, const ValueMatrix& shape, const NormKept& kept, const void* weight,
                         const void* dy, const void* base, void* total, GradientTarget first, GradientTarget second) {
  with_value_type(shape.dtype, [&](auto zero) {
    using T = decltype(zero);
    const RowShape rows = row_shape<T>(shape, kept.x, weight, dy, base, total, first.to, second.to);
    with_row_threads<T>(shape.columns, [&]<int kThreads>() {
      launch(backward_rows<kThreads, T>, static_cast<unsigned>(shape.rows), kThreads, 0, stream, rows,
             InputGradient{kept, weight, dy, base, total, {first, second}});
    });
  });
}

void norm_weight_parts(cudaStream_t stream, const ValueMatrix& shape, const NormKept& kept, const void* dy,
                       float* of_weight, float* of_bias) {
  with_vectors(
      shape.dtype, shape.columns,
      [&]<int kNum, class T>() {
        const uint64_t vectors_of_row = shape.columns / kNum;
        launch(weight_parts<kNum, T>, part_grid(shape.rows, vectors_of_row), kPartThreads, 0, stream, kept,
               static_cast<const T*>(dy), shape.rows, vectors_of_row, of_weight, of_bias);
      },
      kept.x, dy);
}

void check_norm(const ValueMatrix& shape) {
  with_value_type(shape.dtype, [&](auto zero) { num_row_threads<decltype(zero)>(shape.columns); });
}

}  // namespace tessera::cuda
