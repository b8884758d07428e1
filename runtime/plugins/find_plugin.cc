// From a name to a file, for loader.h: `fsdp` is fsdp.so, `gloo` is gloo-comm.so, `cpu` is cpu-device.so,
// `activations` is activations-offload.so (decision 0006). No folder has precedence: a name that is found twice is an
// error, since which plugin runs must not depend on the order of folders.

#include <algorithm>
#include <tuple>

#include "base/concat.h"
#include "config/help/did_you_mean.h"
#include "config/usage_error.h"
#include "launch/launcher.h"
#include "plugins/loader.h"

namespace tessera::host {
namespace {

namespace fs = std::filesystem;

fs::path executable_folder() {
  return fs::path(own_executable()).parent_path();
}

std::string list_of(const std::vector<fs::path>& paths) {
  std::string text;
  for (const auto& path : paths)
    text += (text.empty() ? "" : ", ") + path.string();
  return text.empty() ? "none" : text;
}

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names)
    text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

std::vector<std::string> names_of_kind(PluginKind kind, const std::vector<fs::path>& folders) {
  std::vector<std::string> names;
  for (const PluginCandidate& candidate : list_plugins(folders))
    if (candidate.kind == kind) names.push_back(candidate.name);
  // Sorted by name, so those that two folders have are side by side.
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() > end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace

fs::path default_plugin_folder() {
  // First a build tree, then an installation, else the folder that was compiled in.
  for (const fs::path& folder :
       {executable_folder() / "plugins", executable_folder().parent_path() / "lib" / "tessera"}) {
    std::error_code error;
    if (fs::is_directory(folder, error)) return folder;
  }
  return TESSERA_PLUGIN_PATH;
}

std::vector<fs::path> plugin_folders(const std::vector<std::string>& plugin_dirs) {
  std::vector<fs::path> folders;
  const auto add = [&](const fs::path& folder) {
    const fs::path real = fs::weakly_canonical(folder);
    if (std::find(folders.begin(), folders.end(), real) == folders.end()) folders.push_back(real);
  };
  for (const std::string& folder : plugin_dirs) {
    if (folder.empty()) throw UsageError("--plugin-dir is empty; give a folder");
    if (std::error_code error; !fs::is_directory(folder, error))
      throw UsageError(concat("--plugin-dir ", folder, " is not a folder; give one that exists"));
    add(folder);
  }
  add(default_plugin_folder());
  return folders;
}

std::vector<PluginCandidate> list_plugins(const std::vector<fs::path>& folders) {
  std::vector<PluginCandidate> found;
  for (const fs::path& folder : folders) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      if (entry.path().extension() != ".so") continue;
      PluginCandidate candidate{PluginKind::strategy, entry.path().stem().string(), entry.path()};
      for (const PluginKind kind : kPluginKinds) {
        // A strategy has no suffix: it is what is left.
        if (file_suffix(kind).empty()) continue;
        if (!ends_with(candidate.name, file_suffix(kind))) continue;
        candidate.kind = kind;
        candidate.name.resize(candidate.name.size() - file_suffix(kind).size());
        break;
      }
      found.push_back(std::move(candidate));
    }
  }
  std::sort(found.begin(), found.end(), [](const PluginCandidate& a, const PluginCandidate& b) {
    return std::tie(a.kind, a.name, a.path) < std::tie(b.kind, b.name, b.path);
  });
  return found;
}

fs::path find_plugin(PluginKind kind, std::string_view name, const std::vector<fs::path>& folders) {
  if (name.find('/') != std::string_view::npos) return fs::path(name);
  const std::string file = concat(name, file_suffix(kind), ".so");
  std::vector<fs::path> found;
  for (const fs::path& folder : folders)
    // A link that leads nowhere is found too: the error is then about that file, not about a missing plugin.
    if (std::error_code error; fs::exists(fs::symlink_status(folder / file, error))) found.push_back(folder / file);
  if (found.size() == 1) return found[0];
  if (found.size() > 1)
    throw UsageError(concat(flag_of(kind), " ", name, " could be any of ", list_of(found),
                            "; give the path of the one you mean, or remove the others"));
  if (name.ends_with(".so"))
    throw UsageError(concat(flag_of(kind), " ", name, " is a file's name without a folder; give the path, such as ./",
                            name, ", or the name of a plugin (see tessera plugins list)"),
                     TSR_E_NOT_FOUND);
  const std::vector<std::string> known = names_of_kind(kind, folders);
  const std::string near = nearest(name, known);
  throw UsageError(
      concat("plugin ", name, " for ", flag_of(kind), " was not found: no file ", file, " in ", list_of(folders),
             "; available: ", list_of(known), near.empty() ? "" : concat(" (did you mean ", near, "?)")),
      TSR_E_NOT_FOUND);
}

}  // namespace tessera::host
