// One map and one condition variable: a job has few keys, and a get that waits looks again after every change. What
// listens for changes (the TCP server's loop) is called without the lock, since it may use the store itself.
//
// A closed store still answers for keys that exist, so that ranks can read why others ended; only a get that would have
// to wait throws.

#include "launch/memory_store.h"

#include <algorithm>
#include <chrono>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {

void MemoryStore::set(std::string_view key, std::string_view value) {
  check_key(key);
  check_value(key, value);
  {
    const std::lock_guard lock(mutex_);
    values_.insert_or_assign(std::string(key), std::string(value));
  }
  tell_change();
}

std::string MemoryStore::get(std::string_view key, int64_t timeout_ms) {
  check_key(key);
  std::unique_lock lock(mutex_);
  std::optional<std::string> value;
  const auto is_there = [&] {
    value = find_locked(key);
    return value.has_value();
  };
  const std::chrono::milliseconds timeout(std::min(timeout_ms, kLongestGetMs));
  if (!changed_.wait_for(lock, timeout, is_there)) throw_missing(key, timeout_ms);
  return *std::move(value);
}

std::optional<std::string> MemoryStore::find(std::string_view key) {
  check_key(key);
  const std::lock_guard lock(mutex_);
  return find_locked(key);
}

bool MemoryStore::is_closed() {
  const std::lock_guard lock(mutex_);
  return closed_.has_value();
}

bool MemoryStore::has(std::string_view key) {
  const std::lock_guard lock(mutex_);
  return values_.contains(key);
}

std::optional<std::string> MemoryStore::find_locked(std::string_view key) const {
  if (const auto found = values_.find(key); found != values_.end()) return found->second;
  if (closed_) throw Error(TSR_E_ABORTED, *closed_);
  return std::nullopt;
}

void MemoryStore::close(std::string_view reason) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = reason;
  }
  tell_change();
}

void MemoryStore::tell_change() {
  changed_.notify_all();
  if (on_change_) on_change_();
}

int64_t MemoryStore::add(std::string_view key, int64_t delta) {
  check_key(key);
  const std::lock_guard lock(mutex_);
  int64_t& counter = counters_.try_emplace(std::string(key), 0).first->second;
  int64_t sum = 0;
  if (__builtin_add_overflow(counter, delta, &sum))
    throw Error(TSR_E_INVALID_ARGUMENT, concat("the counter '", key, "' of the key-value store is ", counter,
                                               "; adding ", delta, " leaves the range of 64-bit integers"));
  return counter = sum;
}

}  // namespace tessera::host
