// One run at a time in a folder.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace tessera::host {

/// A folder that a run writes into: another run is refused until this object, or its process, has ended. The system
/// keeps the lock (flock) on a file in the folder that names the process, and drops it however that ends. Where the
/// file cannot be made, or the file system has no locks, any number of runs get one. A file that is removed takes the
/// lock with it: another run can then lock one that it makes under the same name, and renew() tells.
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

  /// Whether the file, or the folder with it, was removed since it was locked.
  bool is_lost() const;
  /// Before the folder is written to again: a lock that is lost is taken anew, in a folder that is there again. Returns
  /// whether it was lost. Throws UNAVAILABLE, naming the process that has the lock by now, when that keeps it for
  /// `patience`; it is lost then until a later call takes it.
  bool renew(std::chrono::milliseconds patience = std::chrono::milliseconds(200));
  /// Removes the file, so that another run can have the folder; is_lost() from then on, until renew() takes it again.
  void release();

 private:
  void take(std::chrono::milliseconds patience, std::string_view advice);
  bool try_to_take();
  bool is_still_there() const;
  std::string holder() const;
  void close();

  const std::string name_;  // "--save runs/char"
  const std::string path_;
  int descriptor_ = -1;
  bool was_lost_ = false;  // and was not taken anew
};

}  // namespace tessera::host
