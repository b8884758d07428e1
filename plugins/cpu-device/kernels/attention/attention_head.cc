// Scores are made for 64 queries at a time, over the keys they can see, and used while they are in the cache: memory is
// 64 T floats for a head instead of T^2, and products above the diagonal are computed within a block only. It is not
// FlashAttention's online softmax: a block has all keys of its queries, so the maximum is known before the sum.
//
//     keys      0 ........ first  block end
//     queries   |  all seen       | causal |   masked: e^score is set to 0 and the product runs over it
//
// Forward: S = q k^T, rows e^(scale (S - max)), O = S v / sum. The division comes last, on [64,D] rather than [64,T].
// Backward makes the probabilities again from the log-sum-exp, with the formulas of FlashAttention (Dao 2022):
// delta = rowsum(dO O), dS = scale P (dO v^T - delta); dv += P^T dO, dk += dS^T q, dq = dS k.
// Cost: 2 products of [T,T,D] / 2 forward, 5 backward.
#include "cpu-device/kernels/attention/attention_head.h"

#include <algorithm>
#include <cmath>

#include "cpu-device/kernels/matmul.h"
#include "cpu-device/kernels/softmax_rows.h"

namespace tessera::cpu {
namespace {

constexpr uint64_t kQueriesPerBlock = 64;  // measured with GPT-2's D = 64, T = 256 and 1024: 32 and 128 are slower

// Queries [first, first + num_queries) and the keys they see: [0, num_keys).
struct Block {
  uint64_t first, num_queries, num_keys;
};

uint64_t num_blocks(uint64_t sequence) {
  return (sequence + kQueriesPerBlock - 1) / kQueriesPerBlock;
}

Block block_at(uint64_t index, uint64_t sequence) {
  const uint64_t first = index * kQueriesPerBlock;
  const uint64_t end = std::min(sequence, first + kQueriesPerBlock);
  return {first, end - first, end};
}

float score_scale(const HeadShape& shape) {
  return 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
}

// product[queries, keys] = a b^T over the head's dims, for rows a of the block's queries and b of its keys.
void multiply_rows(const HeadShape& shape, const Block& block, const float* a, uint64_t a_stride, const float* b,
                   int num_threads, float* product) {
  matmul({block.num_queries, block.num_keys, shape.head_dim}, {a, a_stride}, {b, shape.qkv_stride, true},
         {product, block.num_keys}, false, num_threads);
}

}  // namespace

uint64_t num_block_elements(uint64_t sequence) {
  return std::min(sequence, kQueriesPerBlock) * sequence;
}

void attend(const HeadShape& shape, const float* q, const float* k, const float* v, float* scratch, int num_threads,
            float* output, float* log_sum) {
  const auto row_max = TESSERA_SIMD_CHOOSE(row_max);
  const auto exp_in_place = TESSERA_SIMD_CHOOSE(exp_in_place);
  const auto scale_row = TESSERA_SIMD_CHOOSE(scale_row);
  const float scale = score_scale(shape);
  for (uint64_t index = 0; index < num_blocks(shape.sequence); ++index) {
    const Block block = block_at(index, shape.sequence);
    float* scores = scratch;
    multiply_rows(shape, block, q + block.first * shape.qkv_stride, shape.qkv_stride, k, num_threads, scores);
    double sums[kQueriesPerBlock];
    for (uint64_t r = 0; r < block.num_queries; ++r) {
      const uint64_t num_seen = block.first + r + 1;
      float* row = scores + r * block.num_keys;
      const float max = row_max(row, num_seen);
      sums[r] = exp_in_place(row, num_seen, max, scale);
      std::fill(row + num_seen, row + block.num_keys, 0.0f);
      if (log_sum) log_sum[block.first + r] = static_cast<float>(std::log(sums[r]) + double{max} * double{scale});
    }
    if (!output) continue;
    float* rows = output + block.first * shape.output_stride;
    matmul({block.num_queries, shape.head_dim, block.num_keys}, {scores, block.num_keys}, {v, shape.qkv_stride},
           {rows, shape.output_stride}, false, num_threads);
    for (uint64_t r = 0; r < block.num_queries; ++r)
      scale_row(rows + r * shape.output_stride, shape.head_dim, static_cast<float>(1.0 / sums[r]));
  }
}

namespace {

// The probabilities of a block, again, and the gradient of its scores.
void block_gradients(const HeadShape& shape, const HeadForBackward& kept, const Block& block, int num_threads,
                     float* probabilities, float* gradients) {
  const auto softmax_in_place = TESSERA_SIMD_CHOOSE(softmax_in_place);
  const auto softmax_backward = TESSERA_SIMD_CHOOSE(softmax_backward);
  const auto dot = TESSERA_SIMD_CHOOSE(dot);
  const float scale = score_scale(shape);
  const float* queries = kept.q + block.first * shape.qkv_stride;
  const float* dy = kept.output_gradient + block.first * shape.output_stride;
  multiply_rows(shape, block, queries, shape.qkv_stride, kept.k, num_threads, probabilities);
  multiply_rows(shape, block, dy, shape.output_stride, kept.v, num_threads, gradients);
  for (uint64_t r = 0; r < block.num_queries; ++r) {
    const uint64_t n = block.first + r, num_seen = n + 1;
    float* p = probabilities + r * block.num_keys;
    float* dp = gradients + r * block.num_keys;
    softmax_in_place(p, num_seen, scale, kept.log_sum[n]);
    const uint64_t row = n * shape.output_stride;
    const float delta = dot(kept.output_gradient + row, kept.output + row, shape.head_dim);
    softmax_backward(p, num_seen, scale, delta, dp);
    std::fill(p + num_seen, p + block.num_keys, 0.0f);
    std::fill(dp + num_seen, dp + block.num_keys, 0.0f);
  }
}

}  // namespace

void attend_backward(const HeadShape& shape, const HeadForBackward& kept, float* scratch, int num_threads,
                     const HeadGradients& gradients) {
  // The last block sees all keys: when the gradients are overwritten, its products define every row of k's and v's.
  for (uint64_t left = num_blocks(shape.sequence); left > 0; --left) {
    const Block block = block_at(left - 1, shape.sequence);
    const bool add_to_keys = gradients.accumulate || left < num_blocks(shape.sequence);
    const float* queries = kept.q + block.first * shape.qkv_stride;
    const float* dy = kept.output_gradient + block.first * shape.output_stride;
    float *p = scratch, *ds = scratch + num_block_elements(shape.sequence);
    block_gradients(shape, kept, block, num_threads, p, ds);
    matmul({block.num_keys, shape.head_dim, block.num_queries}, {p, block.num_keys, true}, {dy, shape.output_stride},
           {gradients.v, shape.qkv_stride}, add_to_keys, num_threads);
    matmul({block.num_keys, shape.head_dim, block.num_queries}, {ds, block.num_keys, true}, {queries, shape.qkv_stride},
           {gradients.k, shape.qkv_stride}, add_to_keys, num_threads);
    matmul({block.num_queries, shape.head_dim, block.num_keys}, {ds, block.num_keys}, {kept.k, shape.qkv_stride},
           {gradients.q + block.first * shape.qkv_stride, shape.qkv_stride}, gradients.accumulate, num_threads);
  }
}

}  // namespace tessera::cpu
