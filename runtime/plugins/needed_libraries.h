// The libraries that a plugin brings along: those that the dynamic linker finds through its RUNPATH or RPATH.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "plugins/elf_inspect.h"

namespace tessera::host {

/// Checks where the dynamic linker would look for the libraries of the plugin at `path`, and those that it finds there,
/// as read_plugin_file checks the plugin itself; and so on for the libraries that these need. Returns warnings, whole
/// sentences. Throws UsageError, the end of a sentence, when a folder is relative, or when all users may write a folder
/// or a library.
///
/// A library of one name is loaded once in a process. When another file of that name has been loaded already, that one
/// runs, which is a warning.
std::vector<std::string> check_libraries(const std::filesystem::path& path, const SharedObject& plugin);

/// To be called before the first plugin is loaded: what the process has then are the program's own libraries.
void note_libraries_of_program();
/// The libraries that a loaded plugin names, with the sizes of the files that run under these names, but for the
/// program's own: " libgloo.so.0 541232". Other files may compute other bits.
std::string libraries_text(const SharedObject& plugin);

}  // namespace tessera::host
