// cuDNN's graphs of attention, built and planned through its front end. Included only where the front end is: the
// headers of NVIDIA's cudnn-frontend, told by the build to call the library that was opened and to link none.
#pragma once

#include <cudnn_frontend.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "cuda-device/kernels/attention/attention_parts.h"
#include "tessera/cuda_library.hpp"

static_assert(CUDNN_FRONTEND_VERSION >= 13200, "cuDNN's front end is older than 1.32, which ./dev fetches");

namespace tessera::cuda {

/// Names of the tensors in a graph's variant pack.
enum CudnnTensor : int64_t {
  kCudnnQ = 1,
  kCudnnK,
  kCudnnV,
  kCudnnOutput,
  kCudnnStatistics,
  kCudnnOutputGradient,
  kCudnnQGradient,
  kCudnnKGradient,
  kCudnnVGradient
};

/// Opens cuDNN, once for the process, and makes it the one that the front end calls. Throws UNAVAILABLE when it is not
/// there or older than 9.0. [any-thread]
const CudaLibrary& cudnn_library();

/// What plans are for: the device of a handle, or one that is not here, by its properties (cuDNN's own JSON of them).
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  std::shared_ptr<const cudnn_frontend::DeviceProperties> properties;
  int compute_capability = 0;
};
/// The target with the properties of `json`. Throws INVALID_ARGUMENT with cuDNN's reason.
CudnnTarget cudnn_target(const std::string& json, int compute_capability);

/// A part of an op of attention: `part` of its sequences and heads, in tensors of all of them.
struct CudnnAttention {
  AttentionShape shape;
  AttentionPart part;
  tsr_dtype dtype;             // TSR_BF16 or TSR_F16
  bool is_deterministic;       // of a backward
  int64_t gradient_heads = 0;  // of a backward: heads of a row of the gradient of q|k|v

  auto operator<=>(const CudnnAttention&) const = default;
};

using CudnnGraph = cudnn_frontend::graph::Graph;

/// A graph with its plan and the bytes of scratch that it needs. Throws UNSUPPORTED with cuDNN's reason.
struct CudnnPlan {
  std::shared_ptr<CudnnGraph> graph;
  int64_t workspace_bytes = 0;
};
CudnnPlan plan_cudnn_forward(const CudnnAttention& attention, const CudnnTarget& target);
CudnnPlan plan_cudnn_backward(const CudnnAttention& attention, const CudnnTarget& target);

/// Puts the plan's work on the stream. Throws INTERNAL with cuDNN's reason.
void execute_cudnn(cudnnHandle_t handle, cudaStream_t stream, const CudnnPlan& plan,
                   std::unordered_map<int64_t, void*>& tensors, void* workspace);

/// Throws Error with `code` and the first line of the front end's message unless `result` is good.
void check_cudnn(cudnn_frontend::error_t result, tsr_status code, const char* what);

}  // namespace tessera::cuda
