// nccl-comm gets a device table, not a CUDA device: it finds the GPU by asking CUDA where memory of that device lies.
// So it does not depend on how cuda-device numbers GPUs, and works with any device whose memory is on a GPU. The memory
// is kept as the operand of barriers.
#include "nccl-comm/gpu.h"

#include <array>

namespace tessera::nccl_comm {
namespace {

constexpr uint64_t kScratchBytes = 256;

}  // namespace

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw Error(TSR_E_INTERNAL, std::string("[nccl-comm] ") + what + " failed: " + cudaGetErrorString(error) + " (" +
                                    cudaGetErrorName(error) + ")");
}

void make_current(int gpu) {
  check(cudaSetDevice(gpu), "cudaSetDevice");
}

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

Gpu::Gpu(const tsr_device_interface* api, tsr_device* device) : api_(api), device_(device) {
  call(api_->allocate, device_, TSR_MEMORY_DEVICE, kScratchBytes, &scratch_);
  try {
    identify();
  } catch (...) {
    api_->release(device_, TSR_MEMORY_DEVICE, scratch_);
    throw;
  }
}

Gpu::~Gpu() {
  api_->release(device_, TSR_MEMORY_DEVICE, scratch_);
}

// Waits for the zeros: the barrier that reads the scratch may be on a stream that is not ordered after this one.
void Gpu::identify() {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, scratch_), "cudaPointerGetAttributes");
  if (attributes.type != cudaMemoryTypeDevice)
    throw Error(TSR_E_INVALID_ARGUMENT, "[nccl-comm] the memory of the device is not on a GPU; use --device cuda");
  index_ = attributes.device;
  make_current(index_);
  std::array<char, 32> bus_id{};
  check(cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), index_), "cudaDeviceGetPCIBusId");
  bus_id_ = bus_id.data();
  check(cudaMemset(scratch_, 0, kScratchBytes), "cudaMemset");
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

Event::Event() {
  check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
}

Event::~Event() {
  if (event_) cudaEventDestroy(event_);
}

void Event::record(cudaStream_t stream) {
  check(cudaEventRecord(event_, stream), "cudaEventRecord");
}

bool Event::is_done() const {
  const cudaError_t state = cudaEventQuery(event_);
  if (state == cudaErrorNotReady) return false;
  check(state, "the GPU's work before cudaEventQuery");
  return true;
}

}  // namespace tessera::nccl_comm
