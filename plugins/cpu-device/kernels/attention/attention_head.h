// Causal attention of one head of one sequence, by blocks of queries: a block's scores over the keys up to its last
// query are all that is ever stored.
#pragma once

#include <cstdint>

namespace tessera::cpu {

/// One head in place. Rows of q, k, v and their gradients are `qkv_stride` apart, those of the output `output_stride`.
struct HeadShape {
  uint64_t sequence;  // T
  uint64_t head_dim;  // D
  uint64_t qkv_stride;
  uint64_t output_stride;
};

/// Elements of a block's scores; attend needs room for one block, attend_backward for two.
uint64_t num_block_elements(uint64_t sequence);

/// output[T,D] = softmax(q k^T / sqrt(D), causal) v and log_sum[T] = log of the sum of e^score. Either may be nullptr.
/// Uses one thread when called inside a parallel region, else num_threads.
void attend(const HeadShape& shape, const float* q, const float* k, const float* v, float* scratch, int num_threads,
            float* output, float* log_sum);

/// What forward had and gave, and the gradient of its output.
struct HeadForBackward {
  const float *q, *k, *v, *output, *log_sum, *output_gradient;
};

/// Gradients of q, k and v, overwritten or added to.
struct HeadGradients {
  float *q, *k, *v;
  bool accumulate;
};

void attend_backward(const HeadShape& shape, const HeadForBackward& kept, float* scratch, int num_threads,
                     const HeadGradients& gradients);

}  // namespace tessera::cpu
