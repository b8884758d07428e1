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

}  // namespace tessera::host
