// Tiles of attention in shared memory, and the two products all of its kernels are made of. A block has 16 x 16
// threads; in a tile of results, thread (y, x) has the kRows rows from y * kRows on, so that the 16 threads of a row
// are neighbors in a warp.
#pragma once

#include "cuda-device/kernels/attention/attention_shape.h"
#include "cuda-device/kernels/launch.h"
#include "cuda-device/kernels/values.cuh"

namespace tessera::cuda {

inline constexpr int kAttentionThreads = 256;

/// Rows of kDim float32 each; head dims from head_dim on are zero. kDim is a multiple of 64, kSize one of 16.
template <int kSize_, int kDim_>
struct AttentionTile {
  static constexpr int kSize = kSize_;            // rows; also the columns of a tile of scores
  static constexpr int kDim = kDim_;              // elements of a row: head_dim or more
  static constexpr int kRows = kSize / 16;        // of a thread
  static constexpr int kQuads = kDim / 64;        // of a thread: groups of 4 columns, 64 apart
  static constexpr int kStride = kDim + 4;        // 16 threads that read one column of 16 rows meet no bank twice
  static constexpr int kScoreStride = kSize + 4;  // of a row of scores, padded likewise
  static constexpr int kElements = kSize * kStride;
  static constexpr int kScoreElements = kSize * kScoreStride;

  using Scores = float[kRows][kRows];     // of a thread: row y * kRows + i, column x + 16 j
  using Sums = float[kRows][4 * kQuads];  // of a thread: row y * kRows + i, column 4 x + 64 (j / 4) + j % 4
};

/// Where a block works: one head of one sequence, and one tile of its rows.
struct AttentionPlace {
  int64_t sequence, head, tile;
};
__device__ inline AttentionPlace attention_place(int64_t num_tiles, int64_t num_heads) {
  const int64_t tile = blockIdx.x % num_tiles, index = blockIdx.x / num_tiles;
  return {index / num_heads, index % num_heads, tile};
}

/// One head of one sequence: `num_rows` rows, `stride` apart, of head_dim elements.
template <class T>
struct HeadRows {
  T* first;
  int64_t stride;
  int num_rows, head_dim;
};

/// tile = the rows of the head from `begin` on, zero where there are none.
template <class Tile, class T>
__device__ void load_tile(const HeadRows<const T>& head, int begin, float* tile) {
  for (int e = static_cast<int>(threadIdx.x); e < Tile::kSize * Tile::kDim; e += kAttentionThreads) {
    const int row = e / Tile::kDim, d = e % Tile::kDim;
    const bool is_inside = begin + row < head.num_rows && d < head.head_dim;
    tile[row * Tile::kStride + d] = is_inside ? to_float(head.first[(begin + row) * head.stride + d]) : 0.0f;
  }
}

/// The head's rows from `begin` on = `sums`, or += .
template <class Tile, class T>
__device__ void store_tile(const typename Tile::Sums& sums, const HeadRows<T>& head, int begin, bool adds) {
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
#pragma unroll
  for (int i = 0; i < Tile::kRows; ++i) {
    const int row = begin + y * Tile::kRows + i;
    if (row >= head.num_rows) continue;
#pragma unroll
    for (int j = 0; j < 4 * Tile::kQuads; ++j) {
      const int d = 4 * x + 64 * (j / 4) + j % 4;
      if (d < head.head_dim) write_or_add(head.first + row * head.stride + d, sums[i][j], adds);
    }
  }
}

__device__ inline const float4& quad_at(const float* shared) {
  return *reinterpret_cast<const float4*>(shared);
}

/// scores[i][j] = the product of row y * kRows + i of `rows` and row x + 16 j of `columns`.
template <class Tile>
__device__ void multiply_rows(const float* rows, const float* columns, int head_dim, typename Tile::Scores& scores) {
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
#pragma unroll
  for (int i = 0; i < Tile::kRows; ++i)
#pragma unroll
    for (int j = 0; j < Tile::kRows; ++j)
      scores[i][j] = 0.0f;
#pragma unroll 2
  for (int d = 0; d < head_dim; d += 4) {
    float4 b[Tile::kRows];
#pragma unroll
    for (int j = 0; j < Tile::kRows; ++j)
      b[j] = quad_at(columns + (x + 16 * j) * Tile::kStride + d);
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
      const float4 a = quad_at(rows + (y * Tile::kRows + i) * Tile::kStride + d);
#pragma unroll
      for (int j = 0; j < Tile::kRows; ++j)
        scores[i][j] = fmaf(a.w, b[j].w, fmaf(a.z, b[j].z, fmaf(a.y, b[j].y, fmaf(a.x, b[j].x, scores[i][j]))));
    }
  }
}

/// Leaves `scores` where add_weighted_rows finds them. They are of the thread's rows, and only the 16 threads of a row
/// read it: half a warp writes what it reads.
template <class Tile>
__device__ void share_scores(const typename Tile::Scores& scores, float* shared) {
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < Tile::kRows; ++i)
#pragma unroll
    for (int j = 0; j < Tile::kRows; ++j)
      shared[(y * Tile::kRows + i) * Tile::kScoreStride + x + 16 * j] = scores[i][j];
  __syncwarp();
}

/// sums[row] += the sum over columns c of scores[row][c] * rows[c].
template <class Tile>
__device__ void add_weighted_rows(const float* scores, const float* rows, typename Tile::Sums& sums) {
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
#pragma unroll 1
  for (int c = 0; c < Tile::kSize; c += 4) {
    float weights[Tile::kRows][4];
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
      const float4 quad = quad_at(scores + (y * Tile::kRows + i) * Tile::kScoreStride + c);
      weights[i][0] = quad.x, weights[i][1] = quad.y, weights[i][2] = quad.z, weights[i][3] = quad.w;
    }
#pragma unroll
    for (int k = 0; k < 4; ++k)
#pragma unroll
      for (int j = 0; j < Tile::kQuads; ++j) {
        const float4 value = quad_at(rows + (c + k) * Tile::kStride + 4 * x + 64 * j);
#pragma unroll
        for (int i = 0; i < Tile::kRows; ++i) {
          sums[i][4 * j] = fmaf(weights[i][k], value.x, sums[i][4 * j]);
          sums[i][4 * j + 1] = fmaf(weights[i][k], value.y, sums[i][4 * j + 1]);
          sums[i][4 * j + 2] = fmaf(weights[i][k], value.z, sums[i][4 * j + 2]);
          sums[i][4 * j + 3] = fmaf(weights[i][k], value.w, sums[i][4 * j + 3]);
        }
      }
  }
}

/// The sum or maximum over the 16 threads of a row, the same bits in each.
__device__ inline float row_sum(float value) {
  for (int lane = 8; lane > 0; lane /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, lane);
  return value;
}
__device__ inline float row_max(float value) {
  for (int lane = 8; lane > 0; lane /= 2)
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, lane));
  return value;
}

}  // namespace tessera::cuda
