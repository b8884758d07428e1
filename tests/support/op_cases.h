// The ops of segments on chosen extents, each with operands for forward and backward.
#pragma once

#include "support/op_runner.h"

namespace tessera::testing {

struct OpCase {
  tsr_op op;
  Operands operands;
};

/// A table of `num_rows` rows, those of tokens `begin` to `begin + count - 1` of `total` and then padding, and tokens
/// of the whole vocabulary.
struct TokenExtents {
  int64_t batch, seq, embed, num_rows, begin, count, total;
};
OpCase token_embedding_case(const TokenExtents& e);
/// The whole vocabulary.
OpCase token_embedding_case(int64_t batch, int64_t seq, int64_t embed, int64_t vocabulary);

/// Row n is at position (row_begin + n) mod row_period, and mod seq if row_period is 0.
struct PositionExtents {
  int64_t batch, seq, embed, positions, row_begin = 0, row_period = 0;
};
OpCase position_embedding_case(const PositionExtents& e);

struct NormExtents {
  int64_t batch, seq, embed;
};
/// LAYER_NORM, ADD_LAYER_NORM or ADD, with operands for any of them; inputs have a mean that is not small.
OpCase norm_case(uint32_t kind, const NormExtents& e);

struct LinearExtents {
  int64_t batch, seq, in, out;
  int activation;
  bool has_bias;
};
OpCase linear_case(const LinearExtents& e);

struct AttentionExtents {
  int64_t batch, seq, heads, head_dim;
};
OpCase attention_case(const AttentionExtents& e, float scale = 2.0f);

struct LossExtents {
  int64_t batch, seq, embed, vocabulary;
};
/// LOSS; the phase is BACKWARD, the scale no power of two.
OpCase loss_case(const LossExtents& e);

struct ClassExtents {
  int64_t batch, seq, classes;
};
/// CROSS_ENTROPY; the phase is BACKWARD, the scale no power of two.
OpCase cross_entropy_case(const ClassExtents& e);

/// The ops of a split vocabulary, with the extents of TokenExtents. HEAD_LOGITS has a table whose padding is zero; the
/// others have logits, and a maximum, sums and targets' logits as the other parts leave them.
OpCase head_logits_case(const TokenExtents& e);
OpCase softmax_stats_case(const TokenExtents& e);
OpCase loss_grad_case(const TokenExtents& e);

}  // namespace tessera::testing
