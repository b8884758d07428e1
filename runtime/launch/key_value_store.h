// The job's key-value store: where ranks meet before they have communicators.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

inline constexpr size_t kMaxKeyBytes = 8 * 1024;
inline constexpr size_t kMaxValueBytes = 8 * 1024 * 1024;

/// Keys are never removed. Values and counters are apart: get does not see a counter. Every function may be called by
/// several threads at once, and throws INVALID_ARGUMENT for an empty or too long key, UNAVAILABLE when the store's
/// server is gone.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;

  /// Stores a copy of `value` (at most kMaxValueBytes, else INVALID_ARGUMENT); a later set replaces it.
  virtual void set(std::string_view key, std::string_view value) = 0;
  /// Waits until `key` exists and returns its value. Throws DEADLINE, naming the key, after `timeout_ms`.
  virtual std::string get(std::string_view key, int64_t timeout_ms) = 0;
  /// Adds to a counter (made at 0) and returns the new value.
  virtual int64_t add(std::string_view key, int64_t delta) = 0;
};

/// Throws INVALID_ARGUMENT when the store would not take it. For implementations of KeyValueStore.
void check_key(std::string_view key);
void check_value(std::string_view key, std::string_view value);
/// What get throws at its deadline.
[[noreturn]] void throw_missing(std::string_view key, int64_t timeout_ms);

}  // namespace tessera
