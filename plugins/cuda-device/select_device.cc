// Which GPU: local rank r computes on GPU r of those that CUDA shows (CUDA_VISIBLE_DEVICES). Each way in which that
// fails has an error of its own, since each has its own remedy.
#include "cuda-device/select_device.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <mutex>
#include <string>

#include "cuda-device/cuda_error.h"

namespace tessera::cuda {
namespace {

constexpr const char* kRemedy = "use --device cpu, or run on a machine with an NVIDIA GPU";

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

[[noreturn]] void refuse(cudaError_t error) {
  int driver = 0;
  const bool has_driver = cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0;
  std::string reason =
      std::string("no NVIDIA GPU can be used on this machine (CUDA: ") + cudaGetErrorString(error) + ")";
  if (!has_driver)
    reason = "no NVIDIA driver is loaded on this machine";
  else if (error == cudaErrorNoDevice || error == cudaSuccess)
    reason = "the NVIDIA driver sees no GPU on this machine (see CUDA_VISIBLE_DEVICES)";
  else if (error == cudaErrorInsufficientDriver)
    reason = "the NVIDIA driver of this machine is for CUDA " + version_text(driver) + " and this plugin for CUDA " +
             version_text(CUDART_VERSION);
  cudaGetLastError();
  throw Error(TSR_E_UNAVAILABLE, reason + "; " + kRemedy);
}

// Two settings that CUDA reads from the environment when it starts; a user's own choice is kept.
//
// CUDA_DEVICE_MAX_CONNECTIONS: the streams of one process share hardware queues, 8 by default, and a queue runs in
// order. A stream that waits for another rank, for a semaphore or in a kernel of NCCL, must not be queued before the
// work that rank waits for. NCCL has streams of its own beside ours, so we ask for all queues there are.
//
// CUDA_MODULE_LOADING: a kernel that is loaded at its first launch synchronizes all streams of the process. Ranks that
// share a GPU and a process would wait for streams that wait for them, so all kernels are loaded at the start.
void ask_for_concurrency(bool share) {
  static std::once_flag once;
  std::call_once(once, [share] {
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    if (share) setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  });
}

}  // namespace

int select_device(uint32_t local_rank, bool share) {
  ask_for_concurrency(share);
  int num_devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&num_devices);
  if (error != cudaSuccess || num_devices < 1) refuse(error);
  const auto count = static_cast<uint32_t>(num_devices);
  if (local_rank < count) return static_cast<int>(local_rank);
  if (share) return static_cast<int>(local_rank % count);
  throw Error(TSR_E_UNAVAILABLE, "local rank " + std::to_string(local_rank) + " has no GPU, since there " +
                                     (count == 1 ? "is 1" : "are " + std::to_string(count)) +
                                     "; start fewer ranks on this machine, or let ranks share GPUs with " +
                                     "--cuda.share=true");
}

}  // namespace tessera::cuda
