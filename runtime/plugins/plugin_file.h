// The file of a plugin: which users may write it, its bytes and their hash.
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
  std::string warning;      ///< which other users may write it, and what to do; empty if there are none
};

/// Opens the file, checks what was opened, and reads it. Throws UsageError, a whole sentence, when it is not a regular
/// file, does not begin like a shared object or has more than 1 GiB, or when all users may write it (mode o+w) or a
/// folder above it; a sticky folder of root, such as /tmp, is fine, since other users cannot replace our files there. A
/// file or folder that another user or a group may write (who_else_may_write) is refused to root, and causes a warning
/// otherwise. Folders above the running program are not checked: users who may write there can replace the program
/// itself.
PluginFile read_plugin_file(const std::filesystem::path& path);

/// The users besides root that a plugin's file may belong to.
struct TrustedUsers {
  uid_t self = 0;     ///< the user that runs the program
  uid_t program = 0;  ///< the owner of the program's file: its code runs in any case
};

/// Root, the user that runs the program, and its owner.
TrustedUsers trusted_users();

/// Which other users may write a folder, or one above it: the innermost such.
struct FolderWriters {
  std::filesystem::path folder;
  std::string who;           ///< as who_else_may_write says it; empty: no other user
  bool may_anybody = false;  ///< then `who` is empty
};
FolderWriters writers_of(const std::filesystem::path& folder, const TrustedUsers& trusted);

/// Which other users may write a file or folder of that status: "belongs to user 1000; run chown 0 on it", "may be
/// written by group 50; run chmod g-w on it"; empty if there are none. A group with its owner's number counts as the
/// owner's alone, since distributions create one for each user.
std::string who_else_may_write(const struct stat& status, const TrustedUsers& trusted);

}  // namespace tessera::host
