#include "plugins/plugin_options.h"

#include <algorithm>
#include <deque>
#include <limits>

#include "config/did_you_mean.h"
#include "config/text_values.h"
#include "config/usage_error.h"
#include "observe/text.h"
#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr int64_t kExactDouble = int64_t{1} << 53;

int64_t check_int(const std::string& flag, const PluginOption& option, const std::string& text) {
  const bool has_limits = option.min <= option.max;
  const auto limit = [](double value) {
    return static_cast<int64_t>(std::clamp(value, -double{kExactDouble}, double{kExactDouble}));
  };
  return has_limits
             ? parse_integer(flag, text, limit(option.min), limit(option.max))
             : parse_integer(flag, text, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
}

double check_float(const std::string& flag, const PluginOption& option, const std::string& text) {
  const bool has_limits = option.min <= option.max;
  const double limit = std::numeric_limits<double>::max();
  return parse_number(flag, text, has_limits ? std::max(option.min, -limit) : -limit,
                      has_limits ? std::min(option.max, limit) : limit);
}

std::string choices_of(const PluginOption& option) {
  std::string text;
  for (const std::string& choice : option.choices)
    text += (text.empty() ? "" : "|") + choice;
  return text;
}

// "<plugin>.<option>" or, for one axis, "<axis>.<plugin>.<option>".
std::string flag_name(const LoadedPlugin& plugin, std::string_view axis, const PluginOption& option) {
  return axis.empty() ? concat(plugin.name, ".", option.name) : concat(axis, ".", plugin.name, ".", option.name);
}

// The last flag of that name wins, as a later word corrects an earlier one.
const PluginFlag* find_flag(const std::vector<PluginFlag>& flags, const std::string& name) {
  const auto found =
      std::find_if(flags.rbegin(), flags.rend(), [&](const PluginFlag& flag) { return flag.name == name; });
  return found == flags.rend() ? nullptr : &*found;
}

}  // namespace

struct PluginOptions::Storage {
  std::deque<std::string> texts;  // a deque: its strings do not move
  std::vector<tsr_option_value> values;
};

OptionValue check_option_value(const std::string& flag, const PluginOption& option, const std::string& text) {
  OptionValue value;
  switch (option.type) {
    case TSR_OPTION_INT:
      value.i = check_int(flag, option, text);
      value.d = static_cast<double>(value.i);
      break;
    case TSR_OPTION_FLOAT:
      value.d = check_float(flag, option, text);
      break;
    case TSR_OPTION_BOOL:
      value.i = parse_bool(flag, text) ? 1 : 0;
      value.d = static_cast<double>(value.i);
      break;
    default:
      if (!option.choices.empty()) parse_choice(flag, text, choices_of(option));
  }
  return value;
}

PluginOptions::PluginOptions(const LoadedPlugin& plugin, std::string_view axis, const std::vector<PluginFlag>& flags) {
  auto storage = std::make_shared<Storage>();
  for (const PluginOption& option : plugin.options) {
    const std::string general = flag_name(plugin, "", option);
    const std::string special = flag_name(plugin, axis, option);
    const PluginFlag* flag = find_flag(flags, special);
    if (!flag) flag = find_flag(flags, general);
    const std::string& text = storage->texts.emplace_back(flag ? flag->value : option.default_value);
    const OptionValue value = check_option_value(flag ? flag->name : general, option, text);
    const std::string& name = storage->texts.emplace_back(option.name);
    storage->values.push_back({str(name), str(text), value.i, value.d});
  }
  storage_ = std::move(storage);
}

std::span<const tsr_option_value> PluginOptions::values() const noexcept {
  return storage_->values;
}

void check_plugin_flags(const std::vector<PluginFlag>& flags, std::span<const PluginUse> uses) {
  std::vector<std::string> known;
  for (const PluginUse& use : uses) {
    for (const PluginOption& option : use.plugin->options) {
      known.push_back(flag_name(*use.plugin, "", option));
      if (!use.axis.empty()) known.push_back(flag_name(*use.plugin, use.axis, option));
    }
  }
  for (const PluginFlag& flag : flags) {
    if (std::find(known.begin(), known.end(), flag.name) != known.end()) continue;
    std::string loaded;
    for (const PluginUse& use : uses)
      loaded += (loaded.empty() ? "" : ", ") + use.plugin->name;
    throw UsageError(concat("no plugin of this run has the option --", flag.name, " (loaded: ", loaded, ")",
                            suggest_flag(flag.name, known)));
  }
}

bool is_per_rank(const PluginFlag& flag, const LoadedPlugin& plugin) {
  return std::ranges::any_of(plugin.options, [&](const PluginOption& option) {
    return option.is_per_rank && flag.name == flag_name(plugin, "", option);
  });
}

std::string options_help(const LoadedPlugin& plugin) {
  std::string help;
  for (const PluginOption& option : plugin.options) {
    help += concat("  --", flag_name(plugin, "", option), "=", option.default_value, "\n      ", option.help);
    if (!option.choices.empty()) help += concat(" (one of ", choices_of(option), ")");
    if (option.min <= option.max) help += concat(" (from ", shortest(option.min), " to ", shortest(option.max), ")");
    help += "\n";
  }
  return help;
}

}  // namespace tessera
