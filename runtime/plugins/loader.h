// Finds, checks and loads plugins. A file is inspected before any of its code runs. Implemented in loader.cc,
// find_plugin.cc.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "plugins/loaded_plugin.h"

namespace tessera::host {

/// Where plugins of this build are: <folder of the executable>/plugins, else <folder of the executable>/../lib/tessera,
/// else the folder that the build was configured with.
std::filesystem::path default_plugin_folder();

/// The folders to search: `plugin_dirs` as given, then the default one. Folders that are the same are listed once.
std::vector<std::filesystem::path> plugin_folders(const std::vector<std::string>& plugin_dirs);

/// A file that may be a plugin, by its name alone.
struct PluginCandidate {
  PluginKind kind = PluginKind::strategy;
  std::string name;
  std::filesystem::path path;
};

/// The files "*.so" in the folders (not in subfolders), sorted by kind, then name, then path. Opens none of them.
std::vector<PluginCandidate> list_plugins(const std::vector<std::filesystem::path>& folders);

/// The file that `name` means: with a slash the path itself, else "<folder>/<name><suffix>.so". Throws UsageError when
/// there is none (listing those that exist), or one in each of two folders (naming both).
std::filesystem::path find_plugin(PluginKind kind, std::string_view name,
                                  const std::vector<std::filesystem::path>& folders);

/// The checks of load_plugin that need no loading: the file, its folders, its format and its exports.
void check_plugin_file(const std::filesystem::path& path);

/// Loads the plugin at `path`; it stays loaded. Throws UsageError, one sentence with the path and what to do, when it
/// may not or cannot be used:
///   - it is not a regular file, or not a complete ELF shared object for this machine
///   - the file or a folder above it is writable by all users, or, as root, by another user or group (other users get a
///     warning on `log`)
///   - the entry symbol is missing or not a function, or there are other exports or unique symbols
///   - its stack is executable, its code relocated, or libraries are looked for where other users may write
///   - outside of the default folder: it crashes, exits or hangs while it is loaded and asked what it is
///   - it changes how floating-point numbers are computed, signals, the locale, the current folder, standard files
///   - dlopen fails
///   - magic number, ABI major, minor range or kind do not match
///   - a table is missing, too short or lacks a function; the descriptor is malformed
/// `log` receives what the plugin's entry logs. [control-thread]
LoadedPlugin load_plugin(const std::filesystem::path& path, const Log& log);

/// find_plugin, then load_plugin. Also throws UsageError when the plugin is of another kind, or when it was found by a
/// name other than its own.
LoadedPlugin load_plugin(PluginKind kind, std::string_view name, const std::vector<std::filesystem::path>& folders,
                         const Log& log);

}  // namespace tessera::host
