// What the emulated language and libraries ask of the emulated runtime.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace cuda_on_cpu {

/// How many threads a kernel has, and how much memory its blocks share.
struct LaunchShape {
  dim3 grid, block;
  size_t shared_bytes;
};

/// Puts a kernel on the stream; `thread` is one of its threads, `kernel` what cudaFuncSetAttribute knows it by.
cudaError_t launch(const LaunchShape& shape, cudaStream_t stream, const void* kernel, std::function<void()> thread);
/// Puts work on the stream, or into the graph that the stream is captured for.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);
/// Whether [pointer, pointer + num_bytes) lies in one allocation of the emulated device or in pinned memory.
bool is_device_visible(const void* pointer, size_t num_bytes);

// In a kernel. A barrier or warp operation that not all of its threads reach fails the kernel and does not return.

/// Waits until all threads of the block wait here.
void meet_block();

enum class WarpOperation { sync, shuffle, vote };
/// What a lane gives to an operation of its warp, and the lane whose bits it wants.
struct WarpOffer {
  WarpOperation operation;
  unsigned source;
  bool vote;
  uint64_t bits;
};
/// The bits that `source` gave (all ones if it is not in the mask), and the lanes that voted yes.
struct WarpAnswer {
  uint64_t bits;
  uint32_t votes;
};
/// Waits until the lanes in `mask`, of the calling thread's warp, all wait here with the same mask and operation.
WarpAnswer meet_warp(uint32_t mask, const WarpOffer& offer);

unsigned lane();
void* dynamic_shared_memory();

}  // namespace cuda_on_cpu

// Of the thread of the block that runs.
extern constinit thread_local uint3 threadIdx, blockIdx;
extern constinit thread_local dim3 blockDim, gridDim;
