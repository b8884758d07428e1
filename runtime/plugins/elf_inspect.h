// Inspects a shared object without loading it: no code of the file runs, and no number in it is trusted.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace tessera::host {

/// The symbols that a shared object exports.
struct ElfExports {
  std::vector<std::string> names;   ///< defined dynamic symbols of default visibility
  std::vector<std::string> unique;  ///< those of them that are STB_GNU_UNIQUE: shared by all plugins of the process
};

/// Reads the dynamic symbols through the program headers, so it also works for stripped files. Throws UsageError, with
/// the end of a sentence that starts with the file's name ("is truncated: ...; build it again"), for a file that is not
/// a complete ELF shared object of this machine's class, byte order and processor.
ElfExports inspect_shared_object(std::span<const char> file);

}  // namespace tessera::host
