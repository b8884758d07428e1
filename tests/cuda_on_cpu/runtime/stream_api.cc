// Streams, events, graphs and what is put on streams, as the CUDA runtime declares them.
#include <cuda.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "cuda_on_cpu.h"
#include "failure.h"
#include "stream.h"

struct CUgraph_st {
  cuda_on_cpu::TaskGraph tasks;
};
struct CUgraphExec_st {
  std::shared_ptr<const cuda_on_cpu::TaskGraph> tasks;
};

namespace cuda_on_cpu {
namespace {

cudaError_t create_stream(cudaStream_t* stream, unsigned flags) {
  if (flags != cudaStreamNonBlocking) return cudaErrorNotSupported;  // no stream waits for the default one here
  auto made = std::make_unique<CUstream_st>();
  if (const cudaError_t error = cudaGetDevice(&made->device)) return error;
  *stream = made.release();
  return cudaSuccess;
}

// The driver's way to wait for a word of memory.
CUresult wait_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  if (flags != CU_STREAM_WAIT_VALUE_GEQ || !is_device_visible(reinterpret_cast<const void*>(address), sizeof value))
    return CUDA_ERROR_INVALID_VALUE;
  const auto wait = [address, value] {
    const auto* word = reinterpret_cast<const uint32_t*>(address);
    while (static_cast<int32_t>(__atomic_load_n(word, __ATOMIC_ACQUIRE) - value) < 0)
      std::this_thread::sleep_for(std::chrono::microseconds(200));  // not at the cost of the kernels
  };
  return static_cast<CUresult>(enqueue(stream, wait));  // the numbers of the errors are the same
}

}  // namespace
}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return report(create_stream(stream, flags));
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return report(create_stream(stream, flags));
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  leave_capture(*stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  CUstream_st& stream = resolve(handle);
  if (const cudaError_t error = refuse_if_captured(stream)) return report(error);
  if (const cudaError_t error = check_usable()) return report(error);
  return report(stream.worker.is_idle() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  CUstream_st& stream = resolve(handle);
  if (const cudaError_t error = refuse_if_captured(stream)) return report(error);
  if (const cudaError_t error = check_usable()) return report(error);
  stream.worker.drain();
  return report(device_failure());
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  return report(enqueue(stream, [=] { run_host_function([=] { function(argument); }); }));
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  const bool is_known = std::strcmp(name, "cuStreamWaitValue32") == 0;
  *function = is_known ? reinterpret_cast<void*>(&wait_value) : nullptr;
  *result = is_known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st;
  (*event)->has_time = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  if (const cudaError_t error = check_usable()) return report(error);
  CUstream_st& stream = resolve(handle);
  if (capture_record(*event, stream)) return cudaSuccess;
  event->mark = std::make_shared<Mark>();
  stream.worker.add([mark = event->mark] { mark->set(); });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const cudaError_t error = refuse_while_capturing()) return report(error);
  if (const cudaError_t error = check_usable()) return report(error);
  if (event->captured.capture) return report(cudaErrorCapturedEvent);
  return report(!event->mark || event->mark->is_set() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const cudaError_t error = cudaEventQuery(event);
  if (error != cudaErrorNotReady) return error;
  cudaGetLastError();
  event->mark->wait();
  return report(device_failure());
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  for (const cudaEvent_t event : {start, end}) {
    if (!event->has_time || !event->mark) return report(cudaErrorInvalidResourceHandle);
    if (const cudaError_t error = cudaEventQuery(event)) return error;
  }
  *ms = std::chrono::duration<float, std::milli>(end->mark->time() - start->mark->time()).count();
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  if (const cudaError_t error = check_usable()) return report(error);
  CUstream_st& stream = resolve(handle);
  const cudaError_t captured = capture_wait(stream, *event);
  if (captured != cudaErrorNotReady) return report(captured);
  if (event->mark) stream.worker.add([mark = event->mark] { mark->wait(); });
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (const cudaError_t error = check_usable()) return report(error);
  return report(stream ? begin_capture(*stream, mode) : cudaErrorStreamCaptureUnsupported);
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  auto captured = std::make_unique<CUgraph_st>();
  *graph = nullptr;
  if (const cudaError_t error = end_capture(*stream, &captured->tasks)) return report(error);
  *graph = captured.release();
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = capture_status(resolve(stream));
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  exchange_capture_mode(mode);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new CUgraphExec_st{std::make_shared<TaskGraph>(graph->tasks)};
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  return report(check_usable());
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return report(enqueue(stream, [tasks = exec->tasks] { tasks->run(); }));
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}
