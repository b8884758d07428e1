// A key-value store within one process: for ranks that are threads, and as the storage of the TCP server.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "launch/key_value_store.h"

namespace tessera::host {

class MemoryStore final : public KeyValueStore {
 public:
  /// `on_change` is called after every set and after the first close, on the calling thread, without a lock.
  explicit MemoryStore(std::function<void()> on_change = {}) : on_change_(std::move(on_change)) {}

  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, int64_t timeout_ms) override;
  int64_t add(std::string_view key, int64_t delta) override;
  void close(std::string_view reason) override;
  /// Like get, but does not wait: empty when the key does not exist yet. Throws ABORTED like get.
  std::optional<std::string> find(std::string_view key);
  /// Whether `key` exists; also in a closed store.
  bool has(std::string_view key);
  bool is_closed();

 private:
  std::optional<std::string> find_locked(std::string_view key) const;
  void tell_change();

  const std::function<void()> on_change_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string, std::less<>> values_;  // guarded by mutex_, as are the next two
  std::map<std::string, int64_t, std::less<>> counters_;
  std::optional<std::string> closed_;
};

}  // namespace tessera::host
