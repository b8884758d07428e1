// Options of plugins. A plugin declares names, types, ranges, choices and defaults; the host reads and checks values
// and words the errors, so options of all plugins behave alike. A value for one axis (--shard.fsdp.prefetch) overrides
// one for the plugin (--fsdp.prefetch), which overrides the default.
//
//     option "bucket-mb" of ddp    a number from 1e-06 to 65536, default "25"
//     --ddp.bucket-mb 50           tsr_option_value {"bucket-mb", "50", d = 50}
//
// A plugin gets every option, those that were not given with their defaults.

#include "plugins/plugin_options.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <vector>

#include "base/concat.h"
#include "config/flag_table.h"
#include "config/help/did_you_mean.h"
#include "config/help/flag_text.h"
#include "config/text_values.h"
#include "config/usage_error.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr int64_t kExactDouble = int64_t{1} << 53;

int64_t check_int(const std::string& flag, const PluginOption& option, const std::string& text) {
  const bool has_limits = option.min <= option.max;
  const auto limit = [](double value) {
    // Limits are doubles in the ABI, and exact up to 2^53.
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

const PluginFlag* find_flag(const std::vector<PluginFlag>& flags, const std::string& name) {
  const auto found = std::ranges::find(flags, name, &PluginFlag::name);
  return found == flags.end() ? nullptr : &*found;
}

std::string range_of(const PluginOption& option) {
  return option.min <= option.max ? concat(" from ", shortest(option.min), " to ", shortest(option.max)) : "";
}

std::string what_it_takes(const PluginOption& option) {
  if (!option.choices.empty()) return "one of " + choices_of(option);
  if (option.type == TSR_OPTION_STRING) return "a text";
  return (option.type == TSR_OPTION_INT ? "a whole number" : "a number") + range_of(option);
}

/// The beginning of an error about a flag that a file has.
std::string source_of(const PluginFlag& flag) {
  return flag.file.empty() ? "" : concat("--config ", flag.file, ": ");
}

OptionValue read_flag(const LoadedPlugin& plugin, const PluginOption& option, const PluginFlag& flag) {
  if (!flag.has_value && option.type != TSR_OPTION_BOOL)
    throw UsageError(concat("--", flag.name, " has no value; give ", what_it_takes(option), see_options(plugin)));
  try {
    return check_option_value(flag.name, option, flag.value);
  } catch (const UsageError& error) {
    throw UsageError(concat(source_of(flag), error.what(), see_options(plugin)));
  }
}

/// The plugin in `uses` that the flag names, AXIS.PLUGIN.OPTION or PLUGIN.OPTION; null: none.
const LoadedPlugin* plugin_of(const PluginFlag& flag, std::span<const PluginUse> uses) {
  const auto parts = split(flag.name, '.');
  for (const PluginUse& use : uses)
    if (parts.size() >= 2 && use.plugin->name == parts[parts.size() - 2]) return use.plugin;
  return nullptr;
}

/// Other tools also have flags with dots, such as --training.steps.
void refuse_flag_of_another_tool(const PluginFlag& flag) {
  std::vector<std::string> known = {"config"};
  for (const Flag& one : train_flags())
    known.emplace_back(one.name);
  const std::string hint = suggest_sectioned_flag(flag.name, known);
  if (!hint.empty()) throw UsageError(concat(source_of(flag), "unknown flag --", flag.name, hint));
}

[[noreturn]] void refuse_unknown(const PluginFlag& flag, std::span<const PluginUse> uses) {
  const LoadedPlugin* plugin = plugin_of(flag, uses);
  if (!plugin) refuse_flag_of_another_tool(flag);
  std::vector<std::string> known;
  std::string loaded;
  for (const PluginUse& use : uses) {
    loaded += (loaded.empty() ? "" : ", ") + use.plugin->name;
    for (const PluginOption& option : use.plugin->options) {
      known.push_back(flag_name(*use.plugin, "", option));
      if (!use.axis.empty()) known.push_back(flag_name(*use.plugin, use.axis, option));
    }
  }
  const std::string near = nearest(flag.name, known);
  throw UsageError(concat(source_of(flag), "no plugin of this run has the option --", flag.name, " (loaded: ", loaded,
                          ")", plugin ? see_options(*plugin) : "; see tessera plugins list",
                          near.empty() ? "" : concat("; did you mean --", near, "?")));
}

/// Plugins of different kinds may have one name.
[[noreturn]] void refuse_shared(const PluginFlag& flag, const LoadedPlugin& first, const LoadedPlugin& second) {
  throw UsageError(concat(source_of(flag), "--", flag.name, " is an option of two plugins of this run: ",
                          with_article(first.kind), " (", first.path, ") and ", with_article(second.kind), " (",
                          second.path, "); build one of them with another name, or leave the flag out"));
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
    std::string text = option.default_value;
    // Cannot fail: interface_check.cc has refused a default that is not valid.
    OptionValue value = check_option_value(flag_name(plugin, "", option), option, text);
    for (const std::string_view of_axis : {std::string_view(), axis})  // the second overrides the first
      if (const PluginFlag* flag = find_flag(flags, flag_name(plugin, of_axis, option))) {
        value = read_flag(plugin, option, *flag);
        text = flag->value;
      }
    const std::string& given = storage->texts.emplace_back(text);
    const std::string& name = storage->texts.emplace_back(option.name);
    storage->values.push_back({str(name), str(given), value.i, value.d});
  }
  storage_ = std::move(storage);
}

std::span<const tsr_option_value> PluginOptions::values() const noexcept {
  return storage_ ? std::span<const tsr_option_value>(storage_->values) : std::span<const tsr_option_value>();
}

bool is_option_of(const PluginFlag& flag, const PluginUse& use) {
  return std::ranges::any_of(use.plugin->options, [&](const PluginOption& option) {
    return flag.name == flag_name(*use.plugin, "", option) ||
           (!use.axis.empty() && flag.name == flag_name(*use.plugin, use.axis, option));
  });
}

void check_flag_names(const std::vector<PluginFlag>& flags, std::span<const PluginUse> uses) {
  for (const PluginFlag& flag : flags) {
    const LoadedPlugin* first = nullptr;
    for (const PluginUse& use : uses) {
      if (!is_option_of(flag, use)) continue;
      if (first && first->path != use.plugin->path) refuse_shared(flag, *first, *use.plugin);
      first = use.plugin;
    }
    if (!first) refuse_unknown(flag, uses);
  }
}

std::string see_options(const LoadedPlugin& plugin) {
  return "; see tessera plugins info " + plugin.name;
}

bool is_per_rank(const LoadedPlugin& plugin, std::string_view option) {
  const auto declared = std::ranges::find(plugin.options, option, &PluginOption::name);
  return plugin.kind == PluginKind::communicator && declared != plugin.options.end() && declared->is_per_rank;
}

std::string options_help(const LoadedPlugin& plugin) {
  std::vector<FlagText> options;
  for (const PluginOption& option : plugin.options) {
    const std::string value = !option.choices.empty()            ? choices_of(option)
                              : option.type == TSR_OPTION_BOOL   ? "true|false"
                              : option.type == TSR_OPTION_STRING ? "TEXT"
                              : option.type == TSR_OPTION_INT    ? "N"
                                                                 : "X";
    const std::string range = range_of(option);
    options.push_back({"", flag_name(plugin, "", option), printable(value),
                       printable(concat(option.help, range.empty() ? "" : ",", range)),
                       printable(option.default_value)});
  }
  return flag_rows(options);
}

}  // namespace tessera::host
