// Softmax cross-entropy of rows of logits, and in their place its gradient. Included by .cu files only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda-device/context.h"
#include "cuda-device/kernels/loss/losses.cuh"
#include "tessera/operands.hpp"

namespace tessera::cuda {

/// The rows of one launch.
struct CrossEntropyRows {
  void* logits;              // [num_rows, width], a multiple of 16 bytes
  const int32_t* targets;    // [num_rows]
  uint64_t first, num_rows;  // `first` is the first one's position in the micro-batch, for messages
  GradientScale scale;
  int64_t* loss;  // limbs, to which every row's loss is added; not carried
};

struct CrossEntropyArguments;

/// Rows have `width` logits of `dtype`, of which the first `vocabulary` are of tokens; the rest is padding: it is in no
/// sum, and its gradient is zero. `width` is a multiple of 16 bytes. Statistics are float32.
class CrossEntropy {
 public:
  /// With `differentiates` logits become scale * (softmax - one at the target). [control-thread]
  CrossEntropy(tsr_dtype dtype, uint64_t vocabulary, uint64_t width, bool differentiates, Context& context);

  /// Enqueues it. A target that is not in [0, vocabulary) goes to the context's Fault. [issue-thread]
  void launch(cudaStream_t stream, const CrossEntropyRows& rows) const;

 private:
  const uint64_t vocabulary_, vectors_of_row_;
  Fault* const fault_;
  void (*kernel_)(CrossEntropyArguments);
  unsigned num_threads_;
  unsigned num_kept_;  // vectors of a row that a block keeps in shared memory
};

}  // namespace tessera::cuda
