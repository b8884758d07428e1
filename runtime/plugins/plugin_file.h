// The file of a plugin: who may write it, its bytes and their hash.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace tessera::host {

struct PluginFile {
  std::string path;         ///< absolute, without links
  std::vector<char> bytes;  ///< the whole file
  std::string sha256;       ///< of the bytes, 64 hexadecimal digits
  std::string warning;      ///< who else may write it, and what to do: one sentence; empty when nobody may
};

/// Opens the file, checks what was opened, and reads it. Throws UsageError, one whole sentence, for what is not a
/// regular file, for a file that anybody may write (mode o+w), and for a folder above it that anybody may write, unless
/// that folder is sticky and root's (such as /tmp: there others cannot replace what is ours). A file or folder that
/// another user or a group may write (who_else_may_write) is refused to root and warned of otherwise. Folders above the
/// running program are left out: who writes there can replace the program itself.
PluginFile read_plugin_file(const std::filesystem::path& path);

/// Whom a plugin's file may belong to besides root.
struct TrustedUsers {
  uid_t self = 0;     ///< who runs the program
  uid_t program = 0;  ///< whom the program's own file belongs to: its code runs in any case
};

/// Who else may write a file or folder of that status: "belongs to user 1000; run chown 0 on it", "may be written by
/// group 50; run chmod g-w on it"; empty when nobody may. A group with its owner's number is that user's own, as
/// distributions make one for each user.
std::string who_else_may_write(const struct stat& status, const TrustedUsers& trusted);

}  // namespace tessera::host
