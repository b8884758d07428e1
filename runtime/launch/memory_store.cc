#include "launch/memory_store.h"

#include <chrono>

#include "observe/text.h"
#include "tessera/error.hpp"

namespace tessera {

void MemoryStore::set(std::string_view key, std::string_view value) {
  check_key(key);
  check_value(key, value);
  {
    const std::lock_guard lock(mutex_);
    values_.insert_or_assign(std::string(key), std::string(value));
  }
  changed_.notify_all();
}

std::string MemoryStore::get(std::string_view key, int64_t timeout_ms) {
  std::optional<std::string> value = try_get(key, timeout_ms);
  if (!value) throw_missing(key, timeout_ms);
  return *std::move(value);
}

std::optional<std::string> MemoryStore::try_get(std::string_view key, int64_t timeout_ms) {
  check_key(key);
  std::unique_lock lock(mutex_);
  auto found = values_.end();
  const bool exists = changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] {
    found = values_.find(key);
    return found != values_.end() || closed_;
  });
  if (closed_) throw Error(TSR_E_ABORTED, *closed_);
  if (!exists) return std::nullopt;
  return found->second;
}

void MemoryStore::close(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    closed_ = reason;
  }
  changed_.notify_all();
}

int64_t MemoryStore::add(std::string_view key, int64_t delta) {
  check_key(key);
  const std::lock_guard lock(mutex_);
  return counters_.try_emplace(std::string(key), 0).first->second += delta;
}

}  // namespace tessera
