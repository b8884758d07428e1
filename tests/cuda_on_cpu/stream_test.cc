// Streams, events, waits for memory, captures and memory of the emulation, as CUDA documents them.
#include <cuda.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

namespace {

using std::chrono::milliseconds;

class CudaOnCpuStreams : public ::testing::Test {
 protected:
  void SetUp() override {
    for (cudaStream_t* stream : {&a_, &b_})
      ASSERT_EQ(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), cudaSuccess);
    for (cudaEvent_t* event : {&fork_, &join_})
      ASSERT_EQ(cudaEventCreateWithFlags(event, cudaEventDisableTiming), cudaSuccess);
    ASSERT_EQ(cudaHostAlloc(reinterpret_cast<void**>(&flag_), sizeof *flag_, cudaHostAllocMapped), cudaSuccess);
    *flag_ = 0;
  }
  void TearDown() override {
    open_wait();
    for (cudaStream_t stream : {a_, b_}) {
      EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    }
    for (cudaEvent_t event : {fork_, join_})
      EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(flag_), cudaSuccess);
  }

  /// Enqueues `f`, which must outlive its run.
  static cudaError_t run_on(cudaStream_t stream, std::function<void()>& f) {
    return cudaLaunchHostFunc(
        stream, [](void* function) { (*static_cast<std::function<void()>*>(function))(); }, &f);
  }
  /// The stream waits until open_wait.
  CUresult add_wait(cudaStream_t stream) {
    using WaitValue = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result{};
    EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &function, 12000, 0, &result), cudaSuccess);
    return reinterpret_cast<WaitValue>(function)(stream, reinterpret_cast<CUdeviceptr>(flag_), 1,
                                                 CU_STREAM_WAIT_VALUE_GEQ);
  }
  void open_wait() { __atomic_store_n(flag_, 1u, __ATOMIC_RELEASE); }
  cudaError_t capture_fork(cudaStreamCaptureMode mode) {
    EXPECT_EQ(cudaStreamBeginCapture(a_, mode), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(fork_, a_), cudaSuccess);
    return cudaStreamWaitEvent(b_, fork_, 0);
  }
  cudaError_t capture_join() {
    EXPECT_EQ(cudaEventRecord(join_, b_), cudaSuccess);
    return cudaStreamWaitEvent(a_, join_, 0);
  }
  cudaError_t end_capture() {
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(a_, &graph);
    EXPECT_EQ(graph == nullptr, error != cudaSuccess);
    if (graph) cudaGraphDestroy(graph);
    return error;
  }

  cudaStream_t a_ = nullptr, b_ = nullptr;
  cudaEvent_t fork_ = nullptr, join_ = nullptr;
  uint32_t* flag_ = nullptr;
};

TEST_F(CudaOnCpuStreams, AStreamIsInOrderAndWaitsForEvents) {
  std::vector<int> order;
  std::function<void()> first = [&] { order.push_back(1); }, second = [&] { order.push_back(2); };
  ASSERT_EQ(add_wait(a_), CUDA_SUCCESS);
  ASSERT_EQ(run_on(a_, first), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(fork_, a_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(b_, fork_, 0), cudaSuccess);
  ASSERT_EQ(run_on(b_, second), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(b_), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(fork_), cudaErrorNotReady);
  open_wait();
  ASSERT_EQ(cudaStreamSynchronize(b_), cudaSuccess);
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_EQ(cudaEventQuery(fork_), cudaSuccess);
}

TEST_F(CudaOnCpuStreams, HostFunctionsTakeTurnsAndCallNothing) {
  std::atomic<bool> has_begun{false}, may_end{false}, other_ran{false};
  cudaError_t error = cudaSuccess;
  std::function<void()> slow = [&] {
    error = cudaStreamQuery(b_);
    has_begun = true;
    while (!may_end)
      std::this_thread::yield();
  };
  std::function<void()> other = [&] { other_ran = true; };
  ASSERT_EQ(run_on(a_, slow), cudaSuccess);
  while (!has_begun)
    std::this_thread::yield();
  ASSERT_EQ(run_on(b_, other), cudaSuccess);
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(other_ran);
  may_end = true;
  ASSERT_EQ(cudaStreamSynchronize(b_), cudaSuccess);
  EXPECT_TRUE(other_ran);
  EXPECT_EQ(error, cudaErrorNotPermitted);
}

TEST_F(CudaOnCpuStreams, AGraphKeepsTheOrderOfItsCaptureAndNoOther) {
  std::atomic<int> sum{0};
  std::function<void()> before = [&] { sum = 1; }, side = [&] { sum += 10; }, after = [&] { sum = 2 * sum; };
  ASSERT_EQ(cudaStreamBeginCapture(a_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(run_on(a_, before), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(fork_, a_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(b_, fork_, 0), cudaSuccess);
  ASSERT_EQ(run_on(b_, side), cudaSuccess);
  ASSERT_EQ(capture_join(), cudaSuccess);
  ASSERT_EQ(run_on(a_, after), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(a_, &graph), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(sum, 0);
  for (int launch = 0; launch < 3; ++launch) {
    ASSERT_EQ(cudaGraphLaunch(exec, b_), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(b_), cudaSuccess);
    EXPECT_EQ(sum, 22);
  }
  ASSERT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
}

TEST_F(CudaOnCpuStreams, LanesOfAGraphRunAtOnce) {
  std::function<void()> open = [&] { open_wait(); };
  ASSERT_EQ(capture_fork(cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(add_wait(a_), CUDA_SUCCESS);
  ASSERT_EQ(run_on(b_, open), cudaSuccess);
  ASSERT_EQ(capture_join(), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(a_, &graph), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(exec, a_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
}

TEST_F(CudaOnCpuStreams, ACaptureIsClosed) {
  ASSERT_EQ(capture_fork(cudaStreamCaptureModeThreadLocal), cudaSuccess);
  std::function<void()> nothing = [] {};
  ASSERT_EQ(run_on(b_, nothing), cudaSuccess);
  EXPECT_EQ(end_capture(), cudaErrorStreamCaptureUnjoined);

  ASSERT_EQ(cudaEventRecord(join_, b_), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(a_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(a_, join_, 0), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(end_capture(), cudaErrorStreamCaptureInvalidated);

  ASSERT_EQ(capture_fork(cudaStreamCaptureModeThreadLocal), cudaSuccess);
  cudaGraph_t none = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(b_, &none), cudaErrorStreamCaptureUnmatched);
  ASSERT_EQ(capture_join(), cudaSuccess);
  EXPECT_EQ(end_capture(), cudaSuccess);
}

TEST_F(CudaOnCpuStreams, WhatWaitsForTheDeviceInvalidatesACapture) {
  void* memory = nullptr;
  const std::function<cudaError_t()> calls[] = {
      [&] { return cudaMalloc(&memory, 16); }, [&] { return cudaStreamSynchronize(a_); },
      [&] { return cudaEventQuery(join_); },
      [&] { return cudaMemcpyAsync(flag_, &memory, 4, cudaMemcpyDefault, a_); },  // from memory that is not pinned
  };
  for (const auto& call : calls) {
    ASSERT_EQ(cudaStreamBeginCapture(a_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    EXPECT_EQ(call(), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(end_capture(), cudaErrorStreamCaptureInvalidated);
  }
  // Other threads may, unless the capture is global.
  for (const auto mode : {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeGlobal}) {
    const bool is_global = mode == cudaStreamCaptureModeGlobal;
    ASSERT_EQ(cudaStreamBeginCapture(a_, mode), cudaSuccess);
    std::thread([&] {
      EXPECT_EQ(cudaEventQuery(join_), is_global ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
    }).join();
    EXPECT_EQ(end_capture(), is_global ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
  }
}

TEST_F(CudaOnCpuStreams, CopiesAndFillsStayWithinMemoryOfTheDevice) {
  char* device = nullptr;
  char host[64] = {};
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&device), 64), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(host, device, 64, cudaMemcpyDeviceToHost, a_), cudaSuccess);
  EXPECT_EQ(host[63], '\xff');  // fresh memory is garbage
  EXPECT_EQ(cudaMemsetAsync(device + 1, 0, 64, a_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(host, 0, 64, a_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(host, device, 64, cudaMemcpyHostToDevice, a_), cudaErrorInvalidValue);
  cudaPointerAttributes attributes{};
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, device + 63), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, host), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  ASSERT_EQ(cudaFree(device), cudaSuccess);
  EXPECT_EQ(cudaFree(device), cudaErrorInvalidValue);
}

TEST_F(CudaOnCpuStreams, WritesBehindAllocationsAreFound) {
  char* device = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&device), 100), cudaSuccess);
  device[100] = 0;
  EXPECT_EQ(cudaFree(device), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
}

}  // namespace
