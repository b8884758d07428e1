// Memory of the emulated device, and host memory that was pinned: what kernels and copies may touch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <optional>

namespace cuda_on_cpu {

inline constexpr size_t kDeviceBytes = size_t{16} << 30;

struct Allocation {
  char* begin;
  size_t num_bytes;
  cudaMemoryType type;  // device or host
  int device;
};

// [any-thread]

/// False if it overlaps one that is there.
bool add_allocation(const Allocation& allocation);
/// Removes the one of that type that starts there; nullopt if there is none.
std::optional<Allocation> remove_allocation(const void* begin, cudaMemoryType type);
/// The one that holds all those bytes.
std::optional<Allocation> find_allocation(const void* pointer, size_t num_bytes);
/// What is allocated on the device, in bytes.
size_t used_bytes(int device);

}  // namespace cuda_on_cpu
