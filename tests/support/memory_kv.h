// A job's key-value store in memory, and the host table through which one rank sees it.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "tessera/core.h"

namespace tessera::testing {

/// Thread-safe; shared by all ranks of a test.
class MemoryKv {
 public:
  void set(const std::string& key, std::string value);
  /// False when the key did not come within timeout_ms.
  bool get(const std::string& key, int64_t timeout_ms, std::string& value);
  int64_t add(const std::string& key, int64_t delta);

  /// A host with this store as its only service; borrows the store. Log lines are dropped.
  tsr_host host();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  std::map<std::string, int64_t> counters_;
};

}  // namespace tessera::testing
