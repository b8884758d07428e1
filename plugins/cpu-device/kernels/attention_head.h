// Causal attention of one head of one sequence, by blocks of queries: a block's scores over the keys up to its last
// query are all that is ever stored.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::cpu {

/// One head in place. Rows of q, k, v and their gradients are `qkv_stride` apart, those of the output `output_stride`.
struct HeadShape {
  uint64_t sequence;  // T
  uint64_t head_dim;  // D
  uint64_t qkv_stride;
  uint64_t output_stride;
};

/// Scratch of one thread.
class AttentionScratch {
 public:
  explicit AttentionScratch(uint64_t sequence);

  float* scores() { return memory_.data(); }
  float* gradients() { return memory_.data() + memory_.size() / 2; }

 private:
  std::vector<float> memory_;
};

/// output[T,D] = softmax(q k^T / sqrt(D), causal) v and log_sum[T] = log of the sum of e^score. Either may be nullptr.
/// Uses one thread when called inside a parallel region, else num_threads.
void attend(const HeadShape& shape, const float* q, const float* k, const float* v, AttentionScratch& scratch,
            int num_threads, float* output, float* log_sum);

/// What forward had and gave, and the gradient of its output.
struct HeadForBackward {
  const float *q, *k, *v, *output, *log_sum, *output_gradient;
};

/// Gradients of q, k and v, overwritten or added to.
struct HeadGradients {
  float *q, *k, *v;
  bool accumulate;
};

void attend_backward(const HeadShape& shape, const HeadForBackward& kept, AttentionScratch& scratch, int num_threads,
                     const HeadGradients& gradients);

}  // namespace tessera::cpu
