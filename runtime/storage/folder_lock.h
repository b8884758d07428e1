// One run at a time in a folder.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace tessera::host {

/// A folder that a run writes into: another run is refused until this object, or its process, has ended. The system
/// keeps the lock (flock) on a file in the folder that names the process, and drops it however that ends. Where the
/// file cannot be made, or the file system has no locks, any number of runs get one.
class FolderLock {
 public:
  /// `folder` is there; `flag` gave it. `name`: of the file. Throws UNAVAILABLE, naming the process that has the lock,
  /// when that keeps it for `patience`: one that was killed has it until its last call of the system returns.
  FolderLock(std::string_view flag, const std::string& folder, std::string_view name,
             std::chrono::milliseconds patience = std::chrono::seconds(5));
  /// Removes the file.
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  bool try_to_take();
  bool is_still_there() const;
  std::string holder() const;
  void close();

  const std::string path_;
  int descriptor_ = -1;
};

}  // namespace tessera::host
