// What an open device owns beside its streams: the properties of the GPU, and the place in host memory where kernels
// report wrong data. CUDA's calls go to the GPU that is current for the calling thread, and the ranks of one process
// may use several: so every call from the host makes its own GPU current first.
#include "cuda-device/context.h"

#include <string>

#include "cuda-device/cuda_error.h"

namespace tessera::cuda {
namespace {

constexpr int kMinCapability = 80;  // bfloat16 products, and what our kernels are compiled for

Fault* make_fault() {
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, sizeof(Fault), cudaHostAllocPortable | cudaHostAllocMapped), "cudaHostAlloc");
  return new (memory) Fault{};
}

}  // namespace

DeviceTable::DeviceTable(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  void* pointer = nullptr;
  check(cudaMalloc(&pointer, bytes.size()), "cudaMalloc of a table of " + std::to_string(bytes.size()) + " bytes");
  pointer_.reset(pointer);
  check(cudaMemcpyAsync(pointer, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, nullptr), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

void DeviceTable::Free::operator()(void* pointer) const noexcept {
  cudaFree(pointer);
}

Context::Context(int index, Options options, const tsr_host* host) : index_(index), options_(options), host_(host) {
  make_current();
  check(cudaGetDeviceProperties(&properties_, index_), "cudaGetDeviceProperties");
  if (compute_capability() < kMinCapability)
    throw Error(TSR_E_UNSUPPORTED, "GPU " + std::to_string(index_) + " (" + properties_.name +
                                       ") has compute capability " + std::to_string(properties_.major) + "." +
                                       std::to_string(properties_.minor) +
                                       "; 8.0 or above is needed (A100, H100 and later)");
  fault_ = make_fault();
}

Context::~Context() {
  try_make_current();
  cudaFreeHost(fault_);
}

void Context::make_current() const {
  check(cudaSetDevice(index_), "cudaSetDevice");
}

void Context::try_make_current() const noexcept {
  cudaSetDevice(index_);
}

}  // namespace tessera::cuda
