// The products of the language model's head: logits[N,V] = x[N,C] table[V,C]^T, and their gradients.
#pragma once

#include <cstdint>

#include "cpu-device/kernels/operands.h"

namespace tessera::cpu {

/// Tokens of a chunk of the loss: as many as 64 MiB of float32 logits hold, a multiple of 16. Larger ones make the
/// products no faster, and smaller ones pass over the gradient of the table more often.
uint64_t loss_chunk_length(uint64_t rows, uint64_t vocabulary);

/// x[rows,C] times the table[V,C] of the vocabulary, or of this rank's part of it.
struct LmHeadShape {
  explicit LmHeadShape(const tsr_op& op)
      : rows(num_rows(op)), columns(extent(op, TSR_DIM_EMBED)), vocabulary(extent(op, TSR_DIM_VOCAB)) {}

  uint64_t rows, columns, vocabulary;
};

struct Head {
  uint64_t columns, vocabulary;  // C, V
  int num_threads;

  void multiply(uint64_t num_rows, const float* x, const float* table, float* logits) const;
  /// dx[N,C] (+)= dlogits table.
  void input_gradient(uint64_t num_rows, const float* dlogits, const float* table, bool accumulate, float* dx) const;
  /// dtable[V,C] (+)= dlogits^T x.
  void table_gradient(uint64_t num_rows, const float* dlogits, const float* x, bool accumulate, float* dtable) const;
};

/// maxima[n], the largest of the first num_tokens logits of row n.
void find_row_maxima(const LmHeadShape& shape, uint64_t num_tokens, const float* logits, float* maxima,
                     int num_threads);

}  // namespace tessera::cpu
