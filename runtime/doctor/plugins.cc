// Each plugin is tried in its own tessera process: `plugins info` loads it, `bench device` opens and tests a device,
// `bench comm` sums between two ranks. So a plugin that crashes or hangs is one line of the report.

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/concat.h"
#include "base/progress.h"
#include "config/default_plugins.h"
#include "doctor/child.h"
#include "doctor/finding.h"
#include "plugins/loader.h"

namespace tessera::host {
namespace {

using Level = Finding::Level;

constexpr int64_t kLoadMs = 20'000, kTryMs = 30'000;
// The ranks give up before their process is killed: their own error names the cause.
constexpr const char* kJoinMs = "10000";

struct Loaded {
  PluginCandidate candidate;
  std::string version;
};

/// The commands that sum over two ranks, one for each device: a communicator works on the streams of some devices only.
std::vector<std::vector<std::string>> sums_on(const std::string& communicator,
                                              const std::vector<std::string>& devices) {
  std::vector<std::vector<std::string>> tries;
  for (const std::string& device : devices)
    tries.push_back({"bench",         "comm",       "--comm",       communicator, "--device",   device, "--nproc", "2",
                     "--collectives", "all_reduce", "--min-size",   "4KiB",       "--max-size", "4KiB", "--iters", "1",
                     "--warmup",      "0",          "--timeout-ms", kJoinMs});
  return tries;
}

/// The version and libraries that `plugins info --json` printed.
std::string describe(const std::string& printed, std::string& version) {
  const auto json = nlohmann::json::parse(printed, nullptr, false);
  if (json.is_discarded() || !json.is_object()) return "loads";
  version = json.value("version", "");
  std::string libraries;
  for (const auto& library : json.value("libraries", nlohmann::json::array()))
    if (library.is_string()) libraries += concat(libraries.empty() ? "" : ", ", library.get<std::string>());
  return concat(version, libraries.empty() ? "" : concat("; ", libraries));
}

std::vector<Loaded> load_all(const std::vector<std::string>& plugin_dirs, Findings& findings) {
  std::vector<Loaded> loaded;
  const auto folders = plugin_folders(plugin_dirs);
  const auto candidates = list_plugins(folders);
  for (const PluginCandidate& candidate : candidates) {
    const ChildResult child = run_child({"plugins", "info", candidate.path.string(), "--json"}, kLoadMs);
    const std::string name = concat(to_string(candidate.kind), " ", candidate.name);
    std::string version;
    if (child.is_ok()) {
      findings.push_back({"plugins", name, Level::ok, describe(child.out, version), ""});
      loaded.push_back({candidate, version});
    } else {
      findings.push_back({"plugins", name, Level::warning, concat("refused: ", child.reason()),
                          "Fix what the message says, or remove the file if nothing uses it."});
    }
  }
  if (!candidates.empty()) return loaded;
  std::string searched;
  for (const auto& folder : folders)
    searched += concat(searched.empty() ? "" : ", ", folder.string());
  findings.push_back({"plugins", "none", Level::failure, concat("no plugins in ", searched),
                      "Install the plugins beside the program, or give --plugin-dir."});
  return loaded;
}

/// Whether `other` tells more about why a communicator does not work: wrong usage is that it takes other devices.
bool tells_more(const ChildResult& other, const ChildResult& than) {
  constexpr int kWrongUsage = 2;
  return than.exit_code == kWrongUsage && other.exit_code != kWrongUsage;
}

/// Runs these commands until one works, and adds a finding. Returns whether one worked.
bool try_out(Findings& findings, const char* section, const std::string& name, bool is_default,
             const std::vector<std::vector<std::string>>& tries, const char* remedy) {
  const Progress progress(Log(), concat("trying ", section, ": ", name));
  std::optional<ChildResult> shown;
  for (const auto& arguments : tries) {
    ChildResult child = run_child(arguments, kTryMs);
    if (!shown || child.is_ok() || tells_more(child, *shown)) shown = std::move(child);
    if (shown->is_ok()) break;
  }
  const bool works = shown && shown->is_ok();
  const std::string reason = shown ? shown->reason() : "no device works, so this could not be tried";
  if (works)
    findings.push_back({section, name, Level::ok, format("works (%.1f s)", shown->seconds), ""});
  else
    findings.push_back({section, name, is_default ? Level::failure : Level::warning, reason, remedy});
  return works;
}

}  // namespace

Findings examine_plugins(const std::vector<std::string>& plugin_dirs, bool& works) {
  Findings findings;
  const std::vector<Loaded> loaded = load_all(plugin_dirs, findings);
  std::vector<std::string> devices;
  bool device_works = false, communicator_works = false, has_strategy = false;
  for (const auto& [candidate, version] : loaded) {
    has_strategy |= candidate.kind == PluginKind::strategy && candidate.name == kDefaultStrategy;
    if (candidate.kind != PluginKind::device) continue;
    const bool is_default = candidate.name == kDefaultDevice;
    const bool is_ok = try_out(findings, "devices", candidate.name, is_default,
                               {{"bench", "device", "--device", candidate.path.string(), "--only", "launches"}},
                               "Fix what the message says; runs on this device fail in the same way.");
    if (is_default) device_works = is_ok;
    // The default first: what a communicator says of that one is of use to everybody.
    if (is_ok) devices.insert(is_default ? devices.begin() : devices.end(), candidate.path.string());
  }
  for (const auto& [candidate, version] : loaded) {
    if (candidate.kind != PluginKind::communicator) continue;
    const bool is_default = candidate.name == kDefaultCommunicator;
    const bool is_ok =
        try_out(findings, "communicators", candidate.name, is_default, sums_on(candidate.path.string(), devices),
                "Two ranks on this machine cannot use it; fix what the message says, or give another --comm.");
    if (is_default) communicator_works = is_ok;
  }
  works = device_works && communicator_works && has_strategy;
  return findings;
}

}  // namespace tessera::host
