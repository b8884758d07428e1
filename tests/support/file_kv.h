// A job's key-value store in a folder, for ranks that are processes.
#pragma once

#include <string>

#include "tessera/core.h"

namespace tessera::testing {

class FileKv {
 public:
  /// The folder exists and outlives the store.
  explicit FileKv(std::string folder) : folder_(std::move(folder)) {}

  void set(const std::string& key, const std::string& value) const;
  /// False when the key did not come within timeout_ms.
  bool get(const std::string& key, int64_t timeout_ms, std::string& value) const;

  /// A host with this store as its only service, without counters; borrows the store. Log lines are dropped.
  tsr_host host();

 private:
  std::string path_of(const std::string& key) const;

  const std::string folder_;
};

}  // namespace tessera::testing
