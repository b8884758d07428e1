// Inspects a shared object without loading it: no code of the file runs, and no number in it is trusted.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace tessera::host {

/// What a shared object exports, and what it asks of the dynamic linker.
struct SharedObject {
  std::vector<std::string> names;      ///< defined dynamic symbols of default visibility
  std::vector<std::string> unique;     ///< those of them that are STB_GNU_UNIQUE: shared by all plugins of the process
  std::vector<std::string> functions;  ///< those of them that are code
  std::vector<std::string> needed;     ///< DT_NEEDED, DT_AUXILIARY and DT_FILTER: all are loaded with it
  std::vector<std::string> folders;    ///< of DT_RUNPATH, or without it of DT_RPATH, as they are written
  bool has_executable_stack = false;   ///< or does not say that it needs none
  bool has_text_relocations = false;   ///< its code is written to while it is loaded
};

/// Reads the dynamic section through the program headers, so it also works for stripped files. Throws UsageError, with
/// the end of a sentence that starts with the file's name ("is truncated: ...; build it again"), for a file that is not
/// a complete ELF shared object of this machine's class, byte order and processor.
SharedObject inspect_shared_object(std::span<const char> file);

/// Without the symbols: the needs of a library of any size.
SharedObject inspect_needs(std::span<const char> file);

/// How many bytes of a file check_elf_magic() needs.
inline constexpr size_t kElfMagicBytes = 4;
/// Throws as above unless an ELF file begins so; a large file that is none need not be read.
void check_elf_magic(std::span<const char> begin);

}  // namespace tessera::host
