// `plugins list` checks files without loading them; `plugins info` loads one. All texts of plugins are escaped before
// they are printed.
//
//     strategy      ddp          /usr/lib/tessera/ddp.so
//     strategy      broken       refused: the plugin /home/me/broken.so is truncated: ...

#include "plugins/plugin_report.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/concat.h"
#include "config/usage_error.h"
#include "plugins/plugin_options.h"

namespace tessera::host {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

std::string status_of(const fs::path& path) {
  try {
    // Without loading: a list must not run what it lists.
    check_plugin_file(path);
    return "ok";
  } catch (const std::exception& error) {  // whatever one file is, the list has the others
    return error.what();
  }
}

const char* type_name(uint32_t type) {
  constexpr const char* kNames[] = {"", "int", "float", "bool", "string"};
  return kNames[type];
}

// The plugin's own text may not be UTF-8; it is printed with replacements rather than refused.
std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// The libraries that this process has mapped. A file's needs would not show which versions run.
std::set<std::string> mapped_libraries() {
  std::set<std::string> libraries;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (const size_t path = line.find('/'); path != line.npos && line.find(".so", path) != line.npos)
      libraries.insert(line.substr(path));
  return libraries;
}

/// Those that came with the plugin, as their files are named, which holds their versions.
std::vector<std::string> libraries_of(const LoadedPlugin& plugin, const std::set<std::string>& before) {
  std::vector<std::string> libraries;
  for (const std::string& library : mapped_libraries())
    if (!before.contains(library) && library != plugin.path) libraries.push_back(fs::path(library).filename().string());
  return libraries;
}

Json to_json(const LoadedPlugin& plugin, const std::vector<std::string>& libraries) {
  Json options = Json::array();
  for (const PluginOption& option : plugin.options) {
    Json one = {{"name", option.name},
                {"type", type_name(option.type)},
                {"default", option.default_value},
                {"help", option.help}};
    if (!option.choices.empty()) one["choices"] = option.choices;
    if (option.min <= option.max) one.update({{"min", option.min}, {"max", option.max}});
    options.push_back(std::move(one));
  }
  return {{"kind", to_string(plugin.kind)},
          {"name", plugin.name},
          {"id", plugin.id},
          {"version", plugin.version},
          {"vendor", plugin.vendor},
          {"summary", plugin.summary},
          {"path", plugin.path},
          {"sha256", plugin.sha256},
          {"abi", concat(TSR_ABI_MAJOR, ".", plugin.abi_minor)},
          {"libraries", libraries},
          {"options", options}};
}

std::string to_text(const LoadedPlugin& plugin) {
  const std::string options = options_help(plugin);
  return concat(plugin.name, " ", printable(plugin.version), ": ", printable(plugin.summary), "\n  kind     ",
                to_string(plugin.kind), "  (", flag_of(plugin.kind), " ", plugin.name, ")\n  id       ",
                printable(plugin.id), "\n  vendor   ", printable(plugin.vendor), "\n  ABI      ", TSR_ABI_MAJOR, ".",
                plugin.abi_minor, "\n  file     ", printable(plugin.path), "\n  sha256   ", plugin.sha256, "\n",
                options.empty() ? "no options\n" : "options\n", options);
}

fs::path find_any(const std::string& name, const std::vector<fs::path>& folders) {
  if (name.find('/') != std::string::npos) return name;
  std::vector<PluginCandidate> found;
  std::string known;
  for (const PluginCandidate& candidate : list_plugins(folders)) {
    known += (known.empty() ? "" : ", ") + candidate.path.stem().string();
    // By the file's name too, since two kinds may have plugins of one name ("x" is x.so and x-comm.so).
    if (candidate.name == name || candidate.path.stem() == name) found.push_back(candidate);
  }
  if (found.size() == 1) return found[0].path;
  std::string paths;
  for (const PluginCandidate& candidate : found)
    paths += (paths.empty() ? "" : ", ") + candidate.path.string();
  if (!found.empty()) throw UsageError(concat(name, " could be any of ", paths, "; give the path of the one you mean"));
  throw UsageError(concat("plugin ", name, " was not found; available: ", known.empty() ? "none" : known),
                   TSR_E_NOT_FOUND);
}

constexpr size_t kKindColumns = 14;  // of the longest, "communicator"

/// The kind and the name of one, in columns that the names of all fit into.
std::string row_of(const PluginCandidate& plugin, const std::vector<PluginCandidate>& all) {
  size_t name_columns = 0;
  for (const PluginCandidate& one : all)
    name_columns = std::max(name_columns, printable(one.name).size() + 2);
  std::string kind(to_string(plugin.kind)), name = printable(plugin.name);
  kind.resize(kKindColumns, ' ');
  name.resize(name_columns, ' ');
  return kind + name;
}

}  // namespace

std::string plugins_list(const std::vector<fs::path>& folders, bool as_json) {
  Json all = Json::array();
  std::string text;
  const std::vector<PluginCandidate> plugins = list_plugins(folders);
  for (const PluginCandidate& plugin : plugins) {
    const std::string status = status_of(plugin.path);
    all.push_back(
        {{"kind", to_string(plugin.kind)}, {"name", plugin.name}, {"path", plugin.path.string()}, {"status", status}});
    text += printable(row_of(plugin, plugins) + (status == "ok" ? plugin.path.string() : "refused: " + status)) + "\n";
  }
  if (as_json) return dump(all);
  if (!text.empty()) return text;
  for (const fs::path& folder : folders)
    text += printable(concat("no plugins in ", folder.string())) + "\n";
  return text;
}

std::string plugin_info(const std::string& name, const std::vector<fs::path>& folders, bool as_json, const Log& log) {
  const std::set<std::string> before = mapped_libraries();
  const LoadedPlugin plugin = load_plugin(find_any(name, folders), log);
  return as_json ? dump(to_json(plugin, libraries_of(plugin, before))) : to_text(plugin);
}

}  // namespace tessera::host
