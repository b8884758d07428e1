// A key-value store inside one process: for ranks that are threads, and inside the server of the one over TCP.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>

#include "launch/key_value_store.h"

namespace tessera {

class MemoryStore final : public KeyValueStore {
 public:
  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key, int64_t timeout_ms) override;
  int64_t add(std::string_view key, int64_t delta) override;
  /// As get, but empty when the key does not exist in time.
  std::optional<std::string> try_get(std::string_view key, int64_t timeout_ms);
  /// Waiters and later callers get ABORTED with this reason.
  void close(const std::string& reason);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string, std::less<>> values_;  // guarded by mutex_, as is the next
  std::map<std::string, int64_t, std::less<>> counters_;
  std::optional<std::string> closed_;
};

}  // namespace tessera
