#include "memory.h"

#include <functional>
#include <map>
#include <mutex>

#include "cuda_on_cpu.h"

namespace cuda_on_cpu {
namespace {

struct Allocations {
  std::mutex mutex;
  std::map<const char*, Allocation, std::less<>> by_begin;
};

Allocations& all() {
  static Allocations allocations;
  return allocations;
}

}  // namespace

bool add_allocation(const Allocation& added) {
  const std::lock_guard lock(all().mutex);
  auto& map = all().by_begin;
  const auto next = map.lower_bound(added.begin);
  if (next != map.end() && next->second.begin < added.begin + added.num_bytes) return false;
  if (next != map.begin()) {
    const Allocation& before = std::prev(next)->second;
    if (before.begin + before.num_bytes > added.begin) return false;
  }
  map.emplace_hint(next, added.begin, added);
  return true;
}

std::optional<Allocation> remove_allocation(const void* begin, cudaMemoryType type) {
  const std::lock_guard lock(all().mutex);
  auto& map = all().by_begin;
  const auto found = map.find(static_cast<const char*>(begin));
  if (found == map.end() || found->second.type != type) return std::nullopt;
  const Allocation allocation = found->second;
  map.erase(found);
  return allocation;
}

std::optional<Allocation> find_allocation(const void* pointer, size_t num_bytes) {
  const std::lock_guard lock(all().mutex);
  const auto& map = all().by_begin;
  const auto* begin = static_cast<const char*>(pointer);
  const auto after = map.upper_bound(begin);
  if (after == map.begin()) return std::nullopt;
  const Allocation& found = std::prev(after)->second;
  if (begin + num_bytes > found.begin + found.num_bytes) return std::nullopt;
  return found;
}

size_t used_bytes(int device) {
  const std::lock_guard lock(all().mutex);
  size_t num_bytes = 0;
  for (const auto& [begin, allocation] : all().by_begin)
    if (allocation.type == cudaMemoryTypeDevice && allocation.device == device) num_bytes += allocation.num_bytes;
  return num_bytes;
}

bool is_device_visible(const void* pointer, size_t num_bytes) {
  return find_allocation(pointer, num_bytes).has_value();
}

}  // namespace cuda_on_cpu
