// The three products of the head, written once for loss.cc and head_logits.cc.
#include "cpu-device/kernels/loss/lm_head.h"

#include <algorithm>

#include "cpu-device/kernels/matmul.h"
#include "cpu-device/kernels/parallel_rows.h"
#include "cpu-device/kernels/softmax_rows.h"

namespace tessera::cpu {

uint64_t loss_chunk_length(uint64_t rows, uint64_t vocabulary) {
  constexpr uint64_t kLogits = (uint64_t{64} << 20) / sizeof(float);
  const uint64_t fitting = std::max<uint64_t>(1, kLogits / vocabulary);
  return std::min(rows, fitting < 16 ? fitting : fitting / 16 * 16);
}

void Head::multiply(uint64_t num_rows, const float* x, const float* table, float* logits) const {
  matmul({num_rows, vocabulary, columns}, {x, columns}, {table, columns, true}, {logits, vocabulary}, false,
         num_threads);
}

void Head::input_gradient(uint64_t num_rows, const float* dlogits, const float* table, bool accumulate,
                          float* dx) const {
  matmul({num_rows, columns, vocabulary}, {dlogits, vocabulary}, {table, columns}, {dx, columns}, accumulate,
         num_threads);
}

void Head::table_gradient(uint64_t num_rows, const float* dlogits, const float* x, bool accumulate,
                          float* dtable) const {
  matmul({vocabulary, columns, num_rows}, {dlogits, vocabulary, true}, {x, columns}, {dtable, columns}, accumulate,
         num_threads);
}

void find_row_maxima(const LmHeadShape& shape, uint64_t num_tokens, const float* logits, float* maxima,
                     int num_threads) {
  const auto row_max = TESSERA_SIMD_CHOOSE(row_max);
  parallel_for(num_threads, shape.rows, row_grain(shape.vocabulary), [&](uint64_t begin, uint64_t end, int) {
    for (uint64_t n = begin; n < end; ++n)
      maxima[n] = row_max(logits + n * shape.vocabulary, num_tokens);
  });
}

}  // namespace tessera::cpu
