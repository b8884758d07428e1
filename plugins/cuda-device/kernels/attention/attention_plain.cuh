// How the kernels of plain attention are chosen and prepared.
#pragma once

#include "cuda-device/kernels/attention/attention_plain.h"
#include "cuda-device/kernels/attention/attention_tile.cuh"

namespace tessera::cuda {

/// Where the heads of an op's tensors lie.
struct AttentionHeads {
  explicit AttentionHeads(const AttentionShape& shape)
      : num_heads(shape.heads),
        num_rows(static_cast<int>(shape.sequence)),
        head_dim(static_cast<int>(shape.head_dim)),
        scale(shape.scale()) {}

  /// Part 0, 1, 2 of q|k|v: the head's q, k, v.
  template <class T>
  __device__ HeadRows<T> packed(T* qkv, const AttentionPlace& place, int part) const {
    const int64_t width = num_heads * head_dim;
    return {qkv + place.sequence * num_rows * 3 * width + part * width + place.head * head_dim, 3 * width, num_rows,
            head_dim};
  }
  template <class T>
  __device__ HeadRows<T> output(T* values, const AttentionPlace& place) const {
    const int64_t width = num_heads * head_dim;
    return {values + place.sequence * num_rows * width + place.head * head_dim, width, num_rows, head_dim};
  }
  __device__ int64_t statistics(const AttentionPlace& place) const {
    return (place.sequence * num_heads + place.head) * num_rows;
  }

  int64_t num_heads;
  int num_rows, head_dim;
  float scale;
};

/// Tiles per head times heads: the blocks of a grid.
template <class Tile>
unsigned attention_grid(const AttentionShape& shape) {
  return static_cast<unsigned>(blocks_for(static_cast<uint64_t>(shape.sequence), Tile::kSize) * shape.batch *
                               shape.heads);
}

/// Lets `kernel` have `bytes` of dynamic shared memory.
template <class F>
void allow_shared_memory(F* kernel, size_t bytes) {
  check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "dynamic shared memory for attention");
}

}  // namespace tessera::cuda
