// `tessera plugins list` and `tessera plugins info NAME`. A list loads nothing: it looks at the files alone, so one bad
// plugin does not hide the others. `info` loads the plugin, since only it knows its options; `doctor` uses it to load
// each plugin in a process of its own (doctor/plugins.cc).

#include <iostream>

#include "base/concat.h"
#include "cli/commands.h"
#include "config/default_plugins.h"
#include "config/usage_error.h"
#include "plugins/plugin_report.h"

namespace tessera::host {
namespace {

constexpr std::string_view kUsage = "tessera plugins list|info NAME [--json] [--plugin-dir FOLDER]...";

[[noreturn]] void refuse(const std::string& what) {
  throw UsageError(concat(what, "; usage: ", kUsage));
}

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
    } else if (word == "--plugin-dir") {
      if (i + 1 == arguments.size()) refuse("--plugin-dir has no folder after it");
      flags.folders.push_back(arguments[++i]);
    } else if (word.starts_with("-")) {
      refuse("tessera plugins has no flag " + word);
    } else {
      flags.words.push_back(word);
    }
  }
  return flags;
}

std::string in_quotes(std::span<const std::string> words) {
  std::string text;
  for (const std::string& word : words)
    text += concat(text.empty() ? "'" : ", '", word, "'");
  return text;
}

/// The words are `list`, or `info` and a name.
void check_words(const std::vector<std::string>& words) {
  if (words.empty()) refuse("tessera plugins needs list or info");
  const auto more = std::span(words).subspan(1);
  if (words[0] == "list" && !more.empty()) refuse("tessera plugins list takes no name, but got " + in_quotes(more));
  if (words[0] == "info" && more.empty()) refuse("tessera plugins info needs the name of a plugin");
  if (words[0] == "info" && more.size() > 1) refuse("tessera plugins info takes one name, but got " + in_quotes(more));
  if (words[0] != "list" && words[0] != "info")
    refuse("tessera plugins has no subcommand '" + words[0] + "'; give list or info");
}

}  // namespace

HelpText plugins_help() {
  return {std::string(kUsage),
          "Lists the plugins that can be named in flags, or describes one and its options.",
          {"tessera plugins list", concat("tessera plugins info ", kDefaultDevice)}};
}

std::vector<FlagText> plugins_flags() {
  return {{"Flags", "json", "", "print JSON", ""},
          {"Flags", "plugin-dir", "FOLDER", "search this folder for plugins too; may be repeated", "", false, true},
          {"Flags", "help", "", "print this text", ""}};
}

int plugins_command(std::span<const std::string> arguments) {
  const PluginsFlags flags = parse(arguments);
  if (flags.help) {
    std::cout << help_of(plugins_help(), plugins_flags());
    return 0;
  }
  check_words(flags.words);
  const auto folders = plugin_folders(flags.folders);
  std::cout << (flags.words[0] == "list" ? plugins_list(folders, flags.as_json)
                                         : plugin_info(flags.words[1], folders, flags.as_json, Log()));
  return 0;
}

}  // namespace tessera::host
