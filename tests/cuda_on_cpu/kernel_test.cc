// What kernels get from the emulation: threads, barriers, warps, shared memory; and what it finds wrong in them.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cub/block/block_reduce.cuh>
#include <numeric>
#include <string>
#include <vector>

namespace {

/// An array in the emulated device's memory; tests read it only after they have waited for the device.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t num_elements, T value = {}) : num_elements_(num_elements) {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&data_), num_elements * sizeof(T)), cudaSuccess);
    std::fill_n(data_, num_elements, value);
  }
  ~DeviceArray() {
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    EXPECT_EQ(cudaFree(data_), cudaSuccess);
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() { return data_; }
  std::vector<T> read() {
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    return {data_, data_ + num_elements_};
  }

 private:
  size_t num_elements_;
  T* data_ = nullptr;
};

template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

/// Expects the launch to fail the device, which is whole again afterwards.
template <class... Parameters, class... Arguments>
void expect_fault(void (*kernel)(Parameters...), dim3 block, size_t shared_bytes, Arguments... arguments) {
  EXPECT_EQ(launch(kernel, 1, block, shared_bytes, arguments...), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  EXPECT_EQ(launch(kernel, 1, block, shared_bytes, arguments...), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
}

__global__ void write_index(unsigned* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned i = block * blockDim.x * blockDim.y * blockDim.z + thread;
  out[i] = i;
}

TEST(CudaOnCpu, EveryThreadOfEveryBlockRunsOnce) {
  const dim3 grid(3, 2, 2), block(5, 4, 3);
  DeviceArray<unsigned> out(12 * 60);
  ASSERT_EQ(launch(write_index, grid, block, 0, out.data()), cudaSuccess);
  std::vector<unsigned> expected(12 * 60);
  std::iota(expected.begin(), expected.end(), 0u);
  EXPECT_EQ(out.read(), expected);
}

__global__ void reverse_blocks(const int* in, int* out) {
  __shared__ int values[64];
  const unsigned i = blockIdx.x * 64 + threadIdx.x;
  for (int round = 0; round < 3; ++round) {
    values[threadIdx.x] = in[i] + round;
    __syncthreads();
    out[i] = values[63 - threadIdx.x];
    __syncthreads();
  }
}

TEST(CudaOnCpu, ABarrierShowsWhatAllThreadsWroteBefore) {
  DeviceArray<int> in(128), out(128);
  std::iota(in.data(), in.data() + 128, 0);
  ASSERT_EQ(launch(reverse_blocks, 2, 64, 0, in.data(), out.data()), cudaSuccess);
  const std::vector<int> result = out.read();
  for (int i = 0; i < 128; ++i)
    EXPECT_EQ(result[static_cast<size_t>(i)], i / 64 * 64 + 63 - i % 64 + 2);
}

__global__ void warp_values(int* out) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  int* to = out + threadIdx.x * 8;
  to[0] = __shfl_sync(0xffffffffu, lane, 3);
  to[1] = __shfl_sync(0xffffffffu, lane, 9, 8);
  to[2] = __shfl_xor_sync(0xffffffffu, lane, 5);
  to[3] = __shfl_down_sync(0xffffffffu, lane, 2, 4);
  to[4] = __shfl_up_sync(0xffffffffu, lane, 2);
  to[5] = static_cast<int>(__ballot_sync(0xffffffffu, lane % 2));
  // Halves of the warp go their own ways.
  to[6] = lane < 16 ? __shfl_xor_sync(0x0000ffffu, lane, 1) : __shfl_xor_sync(0xffff0000u, 100 * lane, 2);
  to[7] = __all_sync(0xffffffffu, lane < 32) + 2 * __any_sync(0xffffffffu, lane == 40);
}

TEST(CudaOnCpu, LanesHearEachOther) {
  DeviceArray<int> out(64 * 8);
  ASSERT_EQ(launch(warp_values, 1, 64, 0, out.data()), cudaSuccess);
  const std::vector<int> result = out.read();
  for (int thread = 0; thread < 64; ++thread) {
    const int lane = thread % 32;
    const std::vector<int> expected = {3,
                                       lane / 8 * 8 + 1,
                                       lane ^ 5,
                                       lane % 4 < 2 ? lane + 2 : lane,
                                       lane < 2 ? lane : lane - 2,
                                       static_cast<int>(0xaaaaaaaau),
                                       lane < 16 ? lane ^ 1 : 100 * (lane ^ 2),
                                       1};
    EXPECT_EQ(std::vector<int>(result.begin() + thread * 8, result.begin() + thread * 8 + 8), expected);
  }
}

__global__ void sum_block(const float* in, float* out) {
  using Reduce = cub::BlockReduce<float, 96>;
  __shared__ Reduce::TempStorage storage;
  const float sum = Reduce(storage).Sum(in[threadIdx.x]);
  out[threadIdx.x] = sum;
}

TEST(CudaOnCpu, OnlyThreadZeroHasTheSumOfABlock) {
  DeviceArray<float> in(96), out(96);
  std::iota(in.data(), in.data() + 96, 1.0f);
  ASSERT_EQ(launch(sum_block, 1, 96, 0, in.data(), out.data()), cudaSuccess);
  const std::vector<float> result = out.read();
  EXPECT_EQ(result[0], 96.0f * 97.0f / 2.0f);
  for (size_t i = 1; i < 96; ++i)
    EXPECT_TRUE(std::isnan(result[i]));
}

__global__ void use_shared(float* first_value, unsigned num_written) {
  float* shared = tessera::cuda::dynamic_shared<float>();
  *first_value = shared[0];
  for (unsigned i = 0; i < num_written; ++i)
    shared[i] = 0.0f;
}

TEST(CudaOnCpu, DynamicSharedMemoryStartsAsGarbageAndHasAnEnd) {
  DeviceArray<float> value(1);
  ASSERT_EQ(launch(use_shared, 2, 1, 64, value.data(), 16), cudaSuccess);
  EXPECT_TRUE(std::isnan(value.read()[0]));
#ifndef TESSERA_CHECKS_ADDRESSES  // which ends the program
  expect_fault(use_shared, 1, 64, value.data(), 17);
#endif
}

TEST(CudaOnCpu, MuchDynamicSharedMemoryIsAskedFor) {
  constexpr size_t kBytes = size_t{100} << 10;
  DeviceArray<float> value(1);
  EXPECT_EQ(launch(use_shared, 1, 1, kBytes, value.data(), 1), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaFuncSetAttribute(use_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kBytes)),
            cudaSuccess);
  EXPECT_EQ(launch(use_shared, 1, 1, kBytes, value.data(), 1), cudaSuccess);
  EXPECT_EQ(cudaFuncSetAttribute(use_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 << 10),
            cudaErrorInvalidValue);
}

__global__ void miss_barrier() {
  if (threadIdx.x < 40) __syncthreads();
}
__global__ void miss_lane() {
  if (threadIdx.x != 7) __syncwarp();
}
__global__ void confuse_masks() {
  __shfl_xor_sync(threadIdx.x < 16 ? 0xffffffffu : 0xffff0000u, 1, 1);
}

TEST(CudaOnCpu, ThreadsThatNobodyMeetsAreAFault) {
  expect_fault(miss_barrier, 64, 0);
  expect_fault(miss_lane, 32, 0);
  expect_fault(confuse_masks, 32, 0);
}

TEST(CudaOnCpu, LimitsOfLaunchesAreThoseOfAGpu) {
  DeviceArray<unsigned> out(1);
  for (const dim3& block : {dim3(1025), dim3(0), dim3(1, 1, 65)})
    EXPECT_EQ(launch(write_index, 1, block, 0, out.data()), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(write_index, dim3(1, 65536), 1, 0, out.data()), cudaErrorInvalidConfiguration);
}

__global__ void note_order(unsigned* next, unsigned* blocks, unsigned* threads) {
  const unsigned at = atomicAdd(next, 1u);
  blocks[at] = blockIdx.x;
  threads[at] = threadIdx.x;
}

// ctest runs this program with and without a seed.
TEST(CudaOnCpu, ASeedMixesBlocksAndThreads) {
  DeviceArray<unsigned> next(1), blocks(64 * 32), threads(64 * 32);
  ASSERT_EQ(launch(note_order, 64, 32, 0, next.data(), blocks.data(), threads.data()), cudaSuccess);
  const char* seed = std::getenv("CUDA_ON_CPU_SEED");
  const bool is_mixed = seed && seed != std::string("0");
  const std::vector<unsigned> in_blocks = blocks.read(), in_threads = threads.read();
  EXPECT_EQ(!std::is_sorted(in_blocks.begin(), in_blocks.end()), is_mixed);
  EXPECT_EQ(!std::is_sorted(in_threads.begin(), in_threads.begin() + 32), is_mixed);
}

}  // namespace
