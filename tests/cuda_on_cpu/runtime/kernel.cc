#include "kernel.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "block.h"
#include "failure.h"
#include "stream.h"

namespace cuda_on_cpu {
namespace {

std::mutex limits_mutex;
// That cudaFuncSetAttribute raised; guarded by limits_mutex.
std::map<const void*, size_t>& shared_limits() {
  static std::map<const void*, size_t> limits;
  return limits;
}

size_t shared_limit(const void* kernel) {
  const std::lock_guard lock(limits_mutex);
  const auto found = shared_limits().find(kernel);
  return found == shared_limits().end() ? kSharedBytes : found->second;
}

bool is_valid(const LaunchShape& shape, const void* kernel) {
  constexpr unsigned kMaxGrid = 65535, kMaxBlockZ = 64;
  const auto& [grid, block, shared_bytes] = shape;
  const uint64_t num_threads = uint64_t{block.x} * block.y * block.z;
  const uint64_t num_blocks_yz = uint64_t{grid.y} * grid.z;
  return num_threads > 0 && num_threads <= kMaxBlockThreads && block.z <= kMaxBlockZ && grid.x > 0 &&
         grid.x <= 0x7FFFFFFF && num_blocks_yz > 0 && grid.y <= kMaxGrid && grid.z <= kMaxGrid &&
         shared_bytes <= shared_limit(kernel);
}

// 0: everything in its natural order. Else each launch has a seed of its own.
uint64_t next_seed() {
  static const uint64_t seed = [] {
    const char* value = std::getenv("CUDA_ON_CPU_SEED");
    return value ? std::strtoull(value, nullptr, 10) : 0;
  }();
  static std::atomic<uint64_t> num_launches{0};
  return seed == 0 ? 0 : seed + (++num_launches << 20);
}

// addr2line finds the kernel's name by it.
std::string address_of(const void* kernel) {
  Dl_info info{};
  if (dladdr(kernel, &info) == 0) return "a kernel";
  const auto offset = reinterpret_cast<uintptr_t>(kernel) - reinterpret_cast<uintptr_t>(info.dli_fbase);
  char text[32];
  std::snprintf(text, sizeof text, "+0x%" PRIxPTR, offset);
  return std::string("the kernel at ") + info.dli_fname + text;
}

void run(const LaunchShape& shape, const void* kernel, const std::function<void()>& thread) {
  const dim3& grid = shape.grid;
  std::vector<uint64_t> order(uint64_t{grid.x} * grid.y * grid.z);
  std::iota(order.begin(), order.end(), uint64_t{0});
  const uint64_t seed = next_seed();
  if (seed != 0) std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
  BlockRunner runner(shape, thread, seed);
  for (const uint64_t i : order) {
    const uint3 block = {static_cast<unsigned>(i % grid.x), static_cast<unsigned>(i / grid.x % grid.y),
                         static_cast<unsigned>(i / grid.x / grid.y)};
    const std::string fault = runner.run(block);
    if (fault.empty()) continue;
    return fail_device(cudaErrorLaunchFailure, address_of(kernel) + ", block " + std::to_string(block.x) + "," +
                                                   std::to_string(block.y) + "," + std::to_string(block.z) + ": " +
                                                   fault);
  }
}

}  // namespace

cudaError_t launch(const LaunchShape& shape, cudaStream_t stream, const void* kernel, std::function<void()> thread) {
  if (!is_valid(shape, kernel)) return report(cudaErrorInvalidConfiguration);
  return report(enqueue(stream, [=, thread = std::move(thread)] { run(shape, kernel, thread); }));
}

}  // namespace cuda_on_cpu

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  using namespace cuda_on_cpu;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      static_cast<size_t>(value) > kMaxSharedBytes)
    return report(cudaErrorInvalidValue);
  const std::lock_guard lock(limits_mutex);
  shared_limits()[kernel] = std::max(kSharedBytes, static_cast<size_t>(value));
  return cudaSuccess;
}
