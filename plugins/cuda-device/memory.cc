// One allocation for an arena, at start; nothing in a step, since cudaMalloc may synchronize the device. Pinned memory
// is made of ordinary pages that are then registered, because gloo-comm on other ranks reads it with process_vm_readv,
// which works on ordinary pages for certain (docs/decisions/0011, 0015). Every base is over-allocated to start at a
// page.
#include "cuda-device/memory.h"

#include <sys/mman.h>

#include <limits>
#include <string>

#include "cuda-device/cuda_error.h"
#include "tessera/device.h"

namespace tessera::cuda {
namespace {

constexpr uint64_t kAlignment = 4096;
constexpr uint32_t kHostOfCuda = 1000 + TSR_MEMORY_HOST;  // a block that cudaHostAlloc made
constexpr uint64_t kMaxBytes = std::numeric_limits<size_t>::max() - 2 * kAlignment;

void* align_up(void* pointer) {
  return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(pointer) + kAlignment - 1) & ~(kAlignment - 1));
}

}  // namespace

Memory::~Memory() {
  for (const auto& [pointer, block] : blocks_)
    free(block);
}

void* Memory::allocate(uint32_t memory, uint64_t num_bytes) {
  if (memory != TSR_MEMORY_DEVICE && memory != TSR_MEMORY_HOST)
    throw Error(TSR_E_INVALID_ARGUMENT,
                "memory kind " + std::to_string(memory) + " is neither device (1) nor host (2)");
  context_.make_current();
  const Block block = memory == TSR_MEMORY_DEVICE ? allocate_device(num_bytes) : allocate_host(num_bytes);
  void* pointer = align_up(block.base);
  try {
    blocks_.emplace(pointer, block);
  } catch (...) {
    free(block);
    throw;
  }
  return pointer;
}

void Memory::release(void* pointer) noexcept {
  const auto found = blocks_.find(pointer);
  if (found == blocks_.end()) return;
  free(found->second);
  blocks_.erase(found);
}

// cudaMalloc promises less than our alignment.
Memory::Block Memory::allocate_device(uint64_t num_bytes) const {
  void* base = nullptr;
  const cudaError_t error =
      num_bytes > kMaxBytes ? cudaErrorMemoryAllocation : cudaMalloc(&base, num_bytes + kAlignment);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // this one leaves the device as it was
    const MemoryInfo info = memory_info(context_);
    throw Error(TSR_E_RESOURCE_EXHAUSTED, "GPU " + std::to_string(context_.index()) + " cannot allocate " +
                                              std::to_string(num_bytes) + " bytes: " + std::to_string(info.free) +
                                              " of " + std::to_string(info.total) + " are free");
  }
  check(error, "cudaMalloc");
  return {TSR_MEMORY_DEVICE, base, num_bytes + kAlignment};
}

// Pages, then the registration that pins them for every GPU of the process (portable: ranks that are threads share
// them). "Not permitted" and "not enough" are different errors: ulimit -l is the usual cause of the latter.
Memory::Block Memory::allocate_host(uint64_t num_bytes) const {
  const auto exhausted = [&](const std::string& reason) {
    return Error(TSR_E_RESOURCE_EXHAUSTED,
                 "the host cannot pin " + std::to_string(num_bytes) + " bytes of memory (" + reason + ")");
  };
  if (num_bytes > kMaxBytes) throw exhausted("more than its address space");
  const size_t length = (num_bytes / kAlignment + 1) * kAlignment;
  void* base = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) throw exhausted("mmap failed");
  cudaError_t error = cudaHostRegister(base, length, cudaHostRegisterPortable | cudaHostRegisterMapped);
  if (error == cudaSuccess) return {TSR_MEMORY_HOST, base, length};
  munmap(base, length);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw exhausted(std::string("cudaHostRegister: ") + cudaGetErrorString(error) + "; see ulimit -l");
  }
  // Some containers let CUDA pin only what it maps itself.
  cudaGetLastError();
  error = cudaHostAlloc(&base, length, cudaHostAllocPortable | cudaHostAllocMapped);
  check(error, "cudaHostAlloc of " + std::to_string(length) + " bytes");
  return {kHostOfCuda, base, length};
}

void Memory::free(const Block& block) const noexcept {
  context_.try_make_current();
  if (block.memory == TSR_MEMORY_DEVICE) {
    cudaFree(block.base);
  } else if (block.memory == kHostOfCuda) {
    cudaFreeHost(block.base);
  } else {
    cudaHostUnregister(block.base);
    munmap(block.base, block.num_bytes);
  }
}

MemoryInfo memory_info(const Context& context) {
  context.make_current();
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {total, free};
}

}  // namespace tessera::cuda
