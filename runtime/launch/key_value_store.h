// The job's key-value store: where ranks meet before they have communicators.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::host {

inline constexpr size_t kMaxKeyBytes = 8 * 1024;
inline constexpr size_t kMaxValueBytes = 8 * 1024 * 1024;

/// Once a rank has set this key, a second process that claims a rank is refused without harm to the job; see
/// TcpStoreServer.
inline constexpr std::string_view kJobStarted = "job/started";

/// Keys are never removed. Values and counters are apart: get does not see a counter. Every function may be called by
/// several threads at once, and throws INVALID_ARGUMENT for an empty or too long key, UNAVAILABLE when the store's
/// server is gone.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;

  /// Stores a copy of `value` (at most kMaxValueBytes, else INVALID_ARGUMENT); a later set replaces it.
  virtual void set(std::string_view key, std::string_view value) = 0;
  /// Waits until `key` exists and returns its value. Throws DEADLINE, naming the key, after `timeout_ms`, and ABORTED
  /// with close's reason when the key is not there and the store is closed.
  virtual std::string get(std::string_view key, int64_t timeout_ms) = 0;
  /// Adds to a counter (made at 0) and returns the new value. Throws INVALID_ARGUMENT, and leaves the counter as it is,
  /// when the sum would not fit.
  virtual int64_t add(std::string_view key, int64_t delta) = 0;
  /// Ends the job for all: every get that waits for a missing key, now and later, throws ABORTED with `reason` (at most
  /// kMaxValueBytes). Only the first reason counts. Keys that are there can still be read; set and add go on, so that
  /// ranks can tell why they end.
  virtual void close(std::string_view reason) = 0;
  /// A request was not answered in its time: the machine that serves may be cut off, and further requests would wait as
  /// long.
  virtual bool is_silent() const { return false; }
};

/// Throws INVALID_ARGUMENT when the store would not take it. For implementations of KeyValueStore.
void check_key(std::string_view key);
void check_value(std::string_view key, std::string_view value);
/// What get throws at its deadline.
[[noreturn]] void throw_missing(std::string_view key, int64_t timeout_ms);

}  // namespace tessera::host
