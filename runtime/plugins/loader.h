// Finds, checks and loads plugins. A file is inspected before any of its code runs.
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

/// A file that may be a plugin, judged by its name alone.
struct PluginCandidate {
  PluginKind kind = PluginKind::strategy;
  std::string name;
  std::filesystem::path path;
};

/// The files "*.so" of the folders (not of folders in them), by kind, then name, then path. Opens none of them.
std::vector<PluginCandidate> list_plugins(const std::vector<std::filesystem::path>& folders);

/// The file that `name` means: with a slash the path itself, else "<folder>/<name><suffix>.so". Throws UsageError when
/// there is none (listing what is there), or one in each of two folders (naming both).
std::filesystem::path find_plugin(PluginKind kind, std::string_view name,
                                  const std::vector<std::filesystem::path>& folders);

/// The checks that need no loading, as load_plugin makes them: the file, its folders, its format and its exports.
void check_plugin_file(const std::filesystem::path& path);

/// Loads the plugin at `path`, for ever. Throws UsageError, one sentence with the path and what to do, when it must not
/// or cannot be used: not a regular file; file or a folder above it writable by anybody, or, as
/// root, by another user or a group (others are warned of that on `log`); not a complete ELF shared
/// object for this machine; entry symbol missing, other exports, unique symbols; dlopen's own refusal; wrong magic,
/// major or minor range; unknown kind; a table missing, too short or with holes; a malformed descriptor. `log` receives
/// what the plugin's entry logs. [control-thread]
LoadedPlugin load_plugin(const std::filesystem::path& path, const Log& log);

/// find_plugin and load_plugin. Throws UsageError too when the plugin is of another kind, or was found by a name that
/// is not its own.
LoadedPlugin load_plugin(PluginKind kind, std::string_view name, const std::vector<std::filesystem::path>& folders,
                         const Log& log);

}  // namespace tessera::host
