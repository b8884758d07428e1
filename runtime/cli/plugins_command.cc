#include <algorithm>
#include <iostream>

#include "cli/commands.h"
#include "config/usage_error.h"
#include "plugins/plugin_report.h"

namespace tessera {
namespace {

constexpr std::string_view kUsage = "usage: tessera plugins list|info NAME [--json] [--plugin-dir FOLDER]...";

struct PluginsFlags {
  std::vector<std::string> words;
  std::vector<std::string> folders;
  bool as_json = false;
  bool help = false;
};

PluginsFlags parse(std::span<const std::string> arguments) {
  PluginsFlags flags;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--json") {
      flags.as_json = true;
    } else if (word == "--help" || word == "-h") {
      flags.help = true;
    } else if (word.starts_with("--plugin-dir=")) {
      flags.folders.push_back(word.substr(word.find('=') + 1));
    } else if (word == "--plugin-dir" && i + 1 < arguments.size()) {
      flags.folders.push_back(arguments[++i]);
    } else if (word.starts_with("-")) {
      throw UsageError("plugins knows no flag " + word + "; " + std::string(kUsage));
    } else {
      flags.words.push_back(word);
    }
  }
  return flags;
}

}  // namespace

int plugins_command(std::span<const std::string> arguments) {
  const PluginsFlags flags = parse(arguments);
  if (flags.help) {
    std::cout << kUsage << '\n';
    return 0;
  }
  const auto folders = plugin_folders(flags.folders);
  if (flags.words.size() == 1 && flags.words[0] == "list") {
    std::cout << plugins_list(folders, flags.as_json);
    return 0;
  }
  if (flags.words.size() == 2 && flags.words[0] == "info") {
    std::cout << plugin_info(flags.words[1], folders, flags.as_json, Log());
    return 0;
  }
  throw UsageError(std::string(kUsage));
}

}  // namespace tessera
