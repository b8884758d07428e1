// A file that has no name, so that nothing is left of it when its process is gone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/log.h"

namespace tessera::host {

/// What is free for this user on the file system of a folder. Nothing where it cannot be looked at, or, as ramfs, has
/// no number of blocks.
std::optional<uint64_t> available_bytes(const std::string& folder);

/// A new file of a fixed size in a folder of --offload-dir, of which only this process knows: without a name, mode
/// 0600. The system frees its space when the process ends, however it ends. Holds zeros. Functions are [any-thread].
class UnnamedFile {
 public:
  /// Reserves `num_bytes`, a multiple of kBlockBytes. `flag`: the one that names the folder, for messages; empty: the
  /// user gave the folder as a word. `log` gets one warning where the folder is in memory (tmpfs), one
  /// where it has no direct I/O, one where it cannot reserve. Throws
  ///   NOT_FOUND           the folder does not exist
  ///   INVALID_ARGUMENT    it is not a folder
  ///   RESOURCE_EXHAUSTED  it does not have so much space, or the limit of file size is lower; with both sizes
  ///   UNAVAILABLE         no file can be made there; with the system's reason
  UnnamedFile(const std::string& folder, uint64_t num_bytes, const Log& log, const std::string& flag = "--offload-dir");
  ~UnnamedFile();
  UnnamedFile(UnnamedFile&& other) noexcept;
  UnnamedFile& operator=(UnnamedFile&&) = delete;

  /// The folder as messages name it: "--offload-dir /scratch".
  const std::string& name() const { return name_; }
  /// Takes memory, offsets and lengths that are multiples of kBlockBytes. Of this object.
  int descriptor() const { return descriptor_; }

  /// Where reads and writes go through the page cache: the range leaves it, after what was written has reached the
  /// disk. Elsewhere nothing happens. Returns 0 or the errno of a write that failed meanwhile.
  int drop_cached(uint64_t offset, uint64_t num_bytes) const;

 private:
  void reserve(uint64_t num_bytes, const Log& log) const;
  void choose_path(uint64_t num_bytes, const Log& log);
  bool takes_direct(uint64_t num_bytes) const;

  std::string folder_, name_;
  int descriptor_ = -1;
  bool is_cached_ = false;  // by a page cache over a disk
};

}  // namespace tessera::host
