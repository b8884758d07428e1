// Elements of a chunk in vectors of 16 bytes. Included by .cu files only.
#pragma once

#include <cuda_runtime.h>

#include "tessera/op_chunks.hpp"

namespace tessera::cuda {

/// Elements of a chunk, which a block takes, and of the vectors that lie in one chunk.
inline constexpr uint64_t kChunkElements = 8192, kQuadElements = 4;

/// The elements [i, i + 4) of float operands, i a multiple of 4, as far as they lie in `chunk`.
struct Quad {
  const op::Chunk& chunk;
  uint64_t i;
  bool aligned;  ///< every operand is aligned to 16 bytes

  __device__ bool has(int k) const { return i + k >= chunk.begin && i + k < chunk.end; }
  __device__ bool is_vector() const { return aligned && i >= chunk.begin && i + 4 <= chunk.end; }

  /// Elements outside of the chunk are 0.
  __device__ void load(const float* from, float* x) const {
    if (is_vector()) {
      const float4 vector = *reinterpret_cast<const float4*>(from + i);
      x[0] = vector.x, x[1] = vector.y, x[2] = vector.z, x[3] = vector.w;
      return;
    }
#pragma unroll
    for (int k = 0; k < 4; ++k)
      x[k] = has(k) ? from[i + k] : 0;
  }
  __device__ void store(const float* x, float* to) const {
    if (is_vector()) {
      *reinterpret_cast<float4*>(to + i) = make_float4(x[0], x[1], x[2], x[3]);
      return;
    }
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (has(k)) to[i + k] = x[k];
  }
};

}  // namespace tessera::cuda
