// Memory and copies, as the CUDA runtime declares them.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cuda_on_cpu.h"
#include "failure.h"
#include "memory.h"
#include "stream.h"

namespace cuda_on_cpu {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kAlignment = 256;
constexpr unsigned char kPoison = 0xFF;  // NaN in every floating type
constexpr unsigned char kRedZone = 0xA5;

size_t round_up(size_t num_bytes, size_t multiple) {
  return (num_bytes + multiple - 1) / multiple * multiple;
}

// Device memory ends at a page that may not be touched; what alignment leaves between is a red zone.
struct Mapping {
  explicit Mapping(size_t num_bytes)
      : body_bytes(round_up(num_bytes, kAlignment)), map_bytes(round_up(body_bytes, kPageBytes) + kPageBytes) {}

  size_t offset() const { return map_bytes - kPageBytes - body_bytes; }

  size_t body_bytes, map_bytes;
};

cudaError_t allocate(void** pointer, size_t num_bytes) {
  if (const cudaError_t error = refuse_while_capturing()) return error;
  if (const cudaError_t error = check_usable()) return error;
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device)) return error;
  *pointer = nullptr;
  if (num_bytes == 0) return cudaSuccess;
  if (num_bytes > kDeviceBytes - used_bytes(device)) return cudaErrorMemoryAllocation;
  const Mapping mapping(num_bytes);
  void* map =
      mmap(nullptr, mapping.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return cudaErrorMemoryAllocation;
  auto* begin = static_cast<char*>(map) + mapping.offset();
  mprotect(begin + mapping.body_bytes, kPageBytes, PROT_NONE);
  std::memset(begin, kPoison, num_bytes);
  std::memset(begin + num_bytes, kRedZone, mapping.body_bytes - num_bytes);
  add_allocation({begin, num_bytes, cudaMemoryTypeDevice, device});
  *pointer = begin;
  return cudaSuccess;
}

// Does not wait for the device's work, as CUDA does: what still uses the memory then is found.
cudaError_t release(void* pointer) {
  if (const cudaError_t error = refuse_while_capturing()) return error;
  if (!pointer) return cudaSuccess;
  const auto allocation = remove_allocation(pointer, cudaMemoryTypeDevice);
  if (!allocation) return cudaErrorInvalidValue;
  const Mapping mapping(allocation->num_bytes);
  const char* body_end = allocation->begin + mapping.body_bytes;
  if (!std::all_of(allocation->begin + allocation->num_bytes, allocation->begin + mapping.body_bytes,
                   [](char byte) { return static_cast<unsigned char>(byte) == kRedZone; }))
    fail_device(cudaErrorIllegalAddress, "something was written past the end of device memory of " +
                                             std::to_string(allocation->num_bytes) + " bytes");
  munmap(const_cast<char*>(body_end) + kPageBytes - mapping.map_bytes, mapping.map_bytes);
  return device_failure();
}

cudaError_t allocate_host(void** pointer, size_t num_bytes) {
  if (const cudaError_t error = refuse_while_capturing()) return error;
  *pointer = std::aligned_alloc(kPageBytes, round_up(num_bytes, kPageBytes));
  if (!*pointer) return cudaErrorMemoryAllocation;
  add_allocation({static_cast<char*>(*pointer), num_bytes, cudaMemoryTypeHost, 0});
  return cudaSuccess;
}

cudaError_t release_host(void* pointer) {
  if (const cudaError_t error = refuse_while_capturing()) return error;
  if (!pointer) return cudaSuccess;
  if (!remove_allocation(pointer, cudaMemoryTypeHost)) return cudaErrorInvalidValue;
  std::free(pointer);
  return cudaSuccess;
}

cudaMemoryType type_of(const void* pointer, size_t num_bytes) {
  const auto allocation = find_allocation(pointer, num_bytes);
  return allocation ? allocation->type : cudaMemoryTypeUnregistered;
}

// Whether memory of that type may be on that side of a copy of that kind.
bool may_be(cudaMemoryType type, bool is_device_wanted, cudaMemcpyKind kind) {
  return kind == cudaMemcpyDefault || (type == cudaMemoryTypeDevice) == is_device_wanted;
}

cudaError_t copy(void* to, const void* from, size_t num_bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const cudaMemoryType to_type = type_of(to, num_bytes), from_type = type_of(from, num_bytes);
  if (!may_be(to_type, kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice, kind) ||
      !may_be(from_type, kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice, kind))
    return cudaErrorInvalidValue;
  // From and to memory that is not pinned the driver copies before it returns.
  const bool waits = to_type == cudaMemoryTypeUnregistered || from_type == cudaMemoryTypeUnregistered;
  if (waits)
    if (const cudaError_t error = refuse_if_captured(resolve(stream))) return error;
  if (const cudaError_t error = enqueue(stream, [=] { std::memmove(to, from, num_bytes); })) return error;
  if (waits) resolve(stream).worker.drain();
  return cudaSuccess;
}

cudaError_t set(void* to, int value, size_t num_bytes, cudaStream_t stream) {
  if (!is_device_visible(to, num_bytes)) return cudaErrorInvalidValue;
  return enqueue(stream, [=] { std::memset(to, value, num_bytes); });
}

}  // namespace
}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

cudaError_t cudaMalloc(void** pointer, size_t num_bytes) {
  return report(allocate(pointer, num_bytes));
}
cudaError_t cudaFree(void* pointer) {
  return report(release(pointer));
}
cudaError_t cudaHostAlloc(void** pointer, size_t num_bytes, unsigned) {
  return report(allocate_host(pointer, num_bytes));
}
cudaError_t cudaFreeHost(void* pointer) {
  return report(release_host(pointer));
}
cudaError_t cudaHostRegister(void* pointer, size_t num_bytes, unsigned) {
  if (std::getenv("CUDA_ON_CPU_NO_REGISTER")) return report(cudaErrorNotSupported);
  if (const cudaError_t error = refuse_while_capturing()) return report(error);
  const bool is_new = add_allocation({static_cast<char*>(pointer), num_bytes, cudaMemoryTypeHost, 0});
  return report(is_new ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered);
}
cudaError_t cudaHostUnregister(void* pointer) {
  if (const cudaError_t error = refuse_while_capturing()) return report(error);
  return report(remove_allocation(pointer, cudaMemoryTypeHost) ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  const auto allocation = find_allocation(pointer, 1);
  *attributes = {};
  attributes->type = allocation ? allocation->type : cudaMemoryTypeUnregistered;
  attributes->device = allocation ? allocation->device : 0;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device)) return report(error);
  *total = kDeviceBytes;
  *free = kDeviceBytes - used_bytes(device);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t num_bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return report(copy(to, from, num_bytes, kind, stream));
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t num_bytes, cudaStream_t stream) {
  return report(set(to, value, num_bytes, stream));
}
cudaError_t cudaMemset(void* to, int value, size_t num_bytes) {
  if (const cudaError_t error = refuse_while_capturing()) return report(error);
  return report(set(to, value, num_bytes, nullptr));
}
