// The job's key-value store: how ranks exchange values before they have communicators.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::host {

inline constexpr size_t kMaxKeyBytes = 8 * 1024;
inline constexpr size_t kMaxValueBytes = 8 * 1024 * 1024;
/// The longest wait of a get, 34 years; a longer one would leave the range of clocks.
inline constexpr int64_t kLongestGetMs = int64_t{1} << 40;

/// Once a rank has set this key, a second process that claims a rank is refused without ending the job; see
/// TcpStoreServer.
inline constexpr std::string_view kJobStarted = "job/started";

/// Keys are never removed. Values and counters are separate: get does not see a counter. Every function may be called
/// by several threads at once. All throw INVALID_ARGUMENT for a key that is empty or too long, and UNAVAILABLE when the
/// store's server is lost.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;

  /// Stores a copy of `value` (at most kMaxValueBytes, else INVALID_ARGUMENT); a later set replaces it.
  virtual void set(std::string_view key, std::string_view value) = 0;
  /// Waits until `key` exists and returns its value. Throws DEADLINE, naming the key, after `timeout_ms`
  /// (kLongestGetMs at most), and ABORTED with close's reason when the key is not there and the store is closed.
  virtual std::string get(std::string_view key, int64_t timeout_ms) = 0;
  /// Adds to a counter (made at 0) and returns the new value. Throws INVALID_ARGUMENT, and leaves the counter as it is,
  /// when the sum would not fit.
  virtual int64_t add(std::string_view key, int64_t delta) = 0;
  /// Ends the job for all: every get that waits for a missing key, now or later, throws ABORTED with `reason` (at most
  /// kMaxValueBytes). Only the first reason counts. Existing keys can still be read, and set and add still work, so
  /// that ranks can report why they end.
  virtual void close(std::string_view reason) = 0;
  /// A request timed out: the machine that serves may be unreachable, and further requests would wait as long.
  virtual bool is_silent() const { return false; }
};

/// Throw INVALID_ARGUMENT for a key or value that a store refuses. For implementations of KeyValueStore.
void check_key(std::string_view key);
void check_value(std::string_view key, std::string_view value);
/// The error of get at its deadline.
[[noreturn]] void throw_missing(std::string_view key, int64_t timeout_ms);

}  // namespace tessera::host
