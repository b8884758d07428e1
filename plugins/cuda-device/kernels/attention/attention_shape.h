// What the kernels of attention share: the extents, and where a head lies in the tensors.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>

#include "tessera/operands.hpp"

namespace tessera::cuda {

/// Extents of one op of attention: q|k|v is [batch, sequence, 3, heads, head_dim], the output [batch, sequence, heads,
/// head_dim], statistics are [batch, heads, sequence].
struct AttentionShape {
  /// Throws INVALID_ARGUMENT unless all extents are positive.
  explicit AttentionShape(const tsr_op& op)
      : batch(static_cast<int64_t>(op::extent(op, TSR_DIM_BATCH))),
        sequence(static_cast<int64_t>(op::extent(op, TSR_DIM_SEQ))),
        heads(static_cast<int64_t>(op::extent(op, TSR_DIM_HEADS))),
        head_dim(static_cast<int64_t>(op::extent(op, TSR_DIM_HEAD_DIM))) {}

  int64_t width() const { return heads * head_dim; }
  int64_t num_statistics() const { return batch * heads * sequence; }
  /// The factor of scores.
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }

  auto operator<=>(const AttentionShape&) const = default;

  int64_t batch, sequence, heads, head_dim;
};

}  // namespace tessera::cuda
