// How kernels are launched, and the limits of a GPU that they meet here too.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuda_on_cpu {

inline constexpr uint64_t kMaxBlockThreads = 1024;
inline constexpr size_t kSharedBytes = size_t{48} << 10;      // dynamic shared memory, unless more is asked for
inline constexpr size_t kMaxSharedBytes = size_t{227} << 10;  // and the most

}  // namespace cuda_on_cpu
