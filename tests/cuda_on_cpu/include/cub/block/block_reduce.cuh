// cub::BlockReduce, in CUB's order: within warps, then over them in thread 0.
#pragma once

#include <cuda_runtime.h>

#include <cub/warp/warp_reduce.cuh>

namespace cub {

/// Only thread 0 is given the result, as CUB promises it to no other. Of blocks with one extent.
template <class T, int kThreads>
class BlockReduce {
  static_assert(kThreads % 32 == 0, "the emulation reduces whole warps");

 public:
  struct TempStorage {
    T warps[kThreads / 32];
  };

  explicit BlockReduce(TempStorage& storage) : storage_(storage) {}

  template <class Operation>
  T Reduce(T value, Operation operation) {
    typename WarpReduce<T>::TempStorage none;
    value = WarpReduce<T>(none).Reduce(value, operation);
    if (threadIdx.x % 32 == 0) storage_.warps[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x != 0) return WarpReduce<T>::garbage();
    for (int warp = 1; warp < kThreads / 32; ++warp)
      value = operation(value, storage_.warps[warp]);
    return value;
  }
  T Sum(T value) {
    return Reduce(value, [](const T& a, const T& b) { return a + b; });
  }

 private:
  TempStorage& storage_;
};

}  // namespace cub
