// Files and folders that survive a power cut.
#pragma once

#include <string>
#include <string_view>

namespace tessera::host {

/// What was created, renamed or removed in the folder is so after a power cut too. Throws UNAVAILABLE with the system's
/// reason.
void sync_folder(const std::string& folder);
/// The folder of a file, also of one given by its name alone.
std::string folder_of(const std::string& path);

/// A file that is written under another name in its folder, and takes its own when it is whole and durable: a reader or
/// a crash sees the old file or the new one. [control-thread]
class PartialFile {
 public:
  /// Creates `partial`, anew if one was left there. Throws UNAVAILABLE with the system's reason, as all of these do.
  PartialFile(std::string path, std::string partial);
  explicit PartialFile(const std::string& path) : PartialFile(path, path + ".partial") {}
  /// Removes what was not committed.
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  /// Open for writing, until commit().
  int descriptor() const { return descriptor_; }
  /// Where it is until commit().
  const std::string& path() const { return partial_; }
  /// Closes it.
  void commit();

 private:
  std::string path_, partial_;
  int descriptor_;
};

/// Writes `path` all or nothing, as a PartialFile. Throws UNAVAILABLE with the system's reason.
void write_durably(const std::string& path, std::string_view text);

}  // namespace tessera::host
