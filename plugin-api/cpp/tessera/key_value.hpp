// SPDX-License-Identifier: Apache-2.0
// The host's key-value service, as a plugin uses it for rendezvous: members put their addresses under the prefix given
// to create, and wait for the others'. Keys are never removed: a key has one meaning for the life of the job.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <type_traits>

#include "tessera/error.hpp"

namespace tessera {

/// A point in time after which a wait gives up. Cheap to copy.
class Deadline {
 public:
  /// Time-outs of more than a hundred years are cut to that.
  explicit Deadline(int64_t timeout_ms)
      : at_(Clock::now() + std::chrono::milliseconds(std::min(timeout_ms, int64_t{3'000'000'000'000}))) {}

  std::chrono::steady_clock::time_point at() const noexcept { return at_; }
  bool passed() const noexcept { return Clock::now() >= at_; }
  /// Milliseconds left, 0 when passed.
  int64_t left_ms() const noexcept {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now()).count();
    return left > 0 ? left : 0;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point at_;
};

/// Borrows the host, which outlives it. Every function throws what the service reports. [control-thread]
class KeyValue {
 public:
  /// UNAVAILABLE when the host has no such service.
  explicit KeyValue(const tsr_host* host) : ctx_(host->ctx) {
    service_ = static_cast<const tsr_kv_service*>(host->get_service(host->ctx, str(TSR_KV_SERVICE)));
    if (!service_) throw Error(TSR_E_UNAVAILABLE, "the host has no key-value service (" TSR_KV_SERVICE ")");
  }

  void set(const std::string& key, const void* value, uint64_t num_bytes) const {
    call(service_->set, ctx_, str(key), value, num_bytes);
  }
  void set(const std::string& key, const std::string& value) const { set(key, value.data(), value.size()); }

  /// Waits for the key; DEADLINE after timeout_ms.
  std::string get(const std::string& key, int64_t timeout_ms, uint64_t max_num_bytes = 65536) const {
    std::string value(max_num_bytes, '\0');
    uint64_t num_bytes = max_num_bytes;
    call(service_->get, ctx_, str(key), static_cast<void*>(value.data()), &num_bytes, timeout_ms);
    value.resize(num_bytes);
    return value;
  }

  /// Returns the counter's new value; counters start at 0.
  int64_t add(const std::string& key, int64_t delta) const {
    int64_t result = 0;
    call(service_->add, ctx_, str(key), delta, &result);
    return result;
  }

 private:
  void* ctx_;
  const tsr_kv_service* service_;
};

/// A trivially copyable value as the bytes of a key, and back (INTERNAL when the length is another).
template <class T>
std::string to_bytes(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}
template <class T>
T from_bytes(const std::string& bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (bytes.size() != sizeof(T))
    throw Error(TSR_E_INTERNAL, "a value in the key-value store has " + std::to_string(bytes.size()) +
                                    " bytes, not the expected " + std::to_string(sizeof(T)));
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace tessera
