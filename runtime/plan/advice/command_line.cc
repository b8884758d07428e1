// A command line from a parsed one: what differs from the defaults, flags first, then options of plugins. It is
// made to be pasted into a shell, where a path with a blank and a pattern must stay one word.

#include "plan/advice/command_line.h"

#include "base/concat.h"
#include "config/flag_table.h"

namespace tessera::host {
std::vector<std::string> words_of(const ParsedFlags& flags) {
  std::vector<std::string> words;
  const auto add = [&](const std::string& name, const std::string& value) {
    words.push_back("--" + name);
    words.push_back(value);
  };
  const TrainConfig defaults;
  for (const Flag& flag : train_flags()) {
    const std::string name(flag.name), value = flag.print(flags.config);
    if (value == flag.print(defaults)) continue;
    if (!flag.value.empty())
      add(name, value);
    else
      words.push_back("--" + name + (value == "true" ? "" : "=" + value));
  }
  for (const std::string& folder : flags.config.plugin_dirs)
    add("plugin-dir", folder);
  for (const PluginFlag& option : flags.plugin_flags)
    words.push_back("--" + option.name + (option.has_value ? "=" + option.value : ""));
  return words;
}

std::string command_of(const ParsedFlags& flags) {
  std::string line = flags.config.data.empty() ? "tessera plan" : "tessera train";
  for (const std::string& word : words_of(flags))
    line += " " + shell_word(word);
  return line;
}

}  // namespace tessera::host
