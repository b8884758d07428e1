#include "stream.h"

#include "cuda_on_cpu.h"
#include "failure.h"

namespace cuda_on_cpu {
namespace {

thread_local bool is_host_function = false;

}  // namespace

CUstream_st& resolve(cudaStream_t stream) {
  static CUstream_st default_stream;
  return stream ? *stream : default_stream;
}

cudaError_t check_usable() {
  return is_host_function ? cudaErrorNotPermitted : device_failure();
}

void run_host_function(const Task& function) {
  static Worker worker;
  worker.add([&] {
    is_host_function = true;
    function();
  });
  worker.drain();
}

cudaError_t enqueue(cudaStream_t handle, Task work) {
  if (const cudaError_t error = check_usable()) return error;
  CUstream_st& stream = resolve(handle);
  Task task = [work = std::move(work)] {
    if (device_failure() == cudaSuccess) work();
  };
  if (!capture_task(stream, task)) stream.worker.add(std::move(task));
  return cudaSuccess;
}

}  // namespace cuda_on_cpu
