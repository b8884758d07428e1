// The file of a plugin: who may write it, its bytes and their hash.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tessera {

struct PluginFile {
  std::string path;         ///< absolute, without links
  std::vector<char> bytes;  ///< the whole file
  std::string sha256;       ///< of the bytes, 64 hexadecimal digits
};

/// Opens the file, checks what was opened, and reads it. Throws UsageError, one whole sentence, for what is not a
/// regular file, for a file that anybody may write (mode o+w), and for a folder above it that anybody may write, unless
/// that folder is sticky and root's (such as /tmp: there others cannot replace what is ours).
PluginFile read_plugin_file(const std::filesystem::path& path);

}  // namespace tessera
