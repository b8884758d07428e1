#include "support/memory_kv.h"

#include <chrono>
#include <cstring>

#include "tessera/error.hpp"

namespace tessera::testing {
namespace {

constexpr tsr_kv_service kService = {
    sizeof(tsr_kv_service), 0,
    [](void* ctx, tsr_str key, const void* value, uint64_t num_bytes, tsr_error*) noexcept -> tsr_status {
      static_cast<MemoryKv*>(ctx)->set(to_string(key), std::string(static_cast<const char*>(value), num_bytes));
      return TSR_OK;
    },
    [](void* ctx, tsr_str key, void* value, uint64_t* num_bytes, int64_t timeout_ms, tsr_error* err) noexcept {
      return guard(err, "kv", [&] {
        std::string found;
        if (!static_cast<MemoryKv*>(ctx)->get(to_string(key), timeout_ms, found))
          throw Error(TSR_E_DEADLINE, "key " + to_string(key) + " did not come");
        const uint64_t capacity = *num_bytes;
        *num_bytes = found.size();
        if (found.size() > capacity) throw Error(TSR_E_RESOURCE_EXHAUSTED, "value of " + to_string(key) + " is longer");
        std::memcpy(value, found.data(), found.size());
      });
    },
    [](void* ctx, tsr_str key, int64_t delta, int64_t* result, tsr_error*) noexcept -> tsr_status {
      *result = static_cast<MemoryKv*>(ctx)->add(to_string(key), delta);
      return TSR_OK;
    }};

}  // namespace

void MemoryKv::set(const std::string& key, std::string value) {
  const std::lock_guard lock(mutex_);
  values_[key] = std::move(value);
  changed_.notify_all();
}

bool MemoryKv::get(const std::string& key, int64_t timeout_ms, std::string& value) {
  std::unique_lock lock(mutex_);
  const auto is_there = [&] { return values_.count(key) > 0; };
  if (!changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), is_there)) return false;
  value = values_[key];
  return true;
}

int64_t MemoryKv::add(const std::string& key, int64_t delta) {
  const std::lock_guard lock(mutex_);
  return counters_[key] += delta;
}

tsr_host MemoryKv::host() {
  return {sizeof(tsr_host), TSR_ABI_MINOR, this, [](void*, int32_t, tsr_str) noexcept {},
          [](void*, tsr_str id) noexcept -> const void* { return view(id) == TSR_KV_SERVICE ? &kService : nullptr; }};
}

}  // namespace tessera::testing
