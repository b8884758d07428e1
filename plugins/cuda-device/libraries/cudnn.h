// cuDNN, as far as we use it: attention in 16 bits. Nothing that includes this sees cuDNN's headers.
#pragma once

#include <memory>
#include <span>

#include "cuda-device/kernel.h"

namespace tessera::cuda {

/// cuDNN, opened for one device.
class Cudnn {
 public:
  virtual ~Cudnn() = default;
  /// A kernel for an op of attention, with slots as attention.cc describes them. Throws UNSUPPORTED with cuDNN's reason
  /// when it does not compute it, or needs more scratch than w0 has. [control-thread]
  virtual std::unique_ptr<Kernel> attention(const tsr_op& op, std::span<const tsr_slot_spec> slots) = 0;
};

/// Opens cuDNN for the calling thread's device, of `compute_capability` (90 on Hopper). `deterministic`: of all it
/// offers, only what adds in a fixed order. Backwards go over parts of at most `part_bytes` of scratch. Throws
/// UNAVAILABLE when it is not there or too old, or when this was built without its front end. [control-thread]
std::unique_ptr<Cudnn> open_cudnn(int compute_capability, bool deterministic, int64_t part_bytes);

}  // namespace tessera::cuda
