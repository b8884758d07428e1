// Parses the command line in one pass with Boost.Program_options. Flags with a dot are options of plugins, and other
// flags decide which plugins are loaded; so options are collected here and checked later (plugins/plugin_options.h).
//
// The rest of this file does what Boost does not: underscores for dashes, a value after a plugin's option, flags given
// twice, flags that contradict one another, and errors that say what to type.
//
// Order: names are made uniform; Boost splits words into flags and values; --help ends it here; options of plugins are
// taken from what Boost does not know; values are read into the TrainConfig; the file of --config fills in what was not
// given; last come the checks that need several flags.

#include "config/parse_flags.h"

#include <algorithm>
#include <boost/make_shared.hpp>
#include <boost/program_options.hpp>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

#include "base/concat.h"
#include "config/axes.h"
#include "config/checkpoint_flags.h"
#include "config/flag_table.h"
#include "config/help/did_you_mean.h"
#include "config/settings/settings_file.h"
#include "config/settings/take_settings.h"
#include "config/text_values.h"
#include "config/usage_error.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

namespace po = boost::program_options;

// One flag for Boost; `config` receives its value when the map is notified.
boost::shared_ptr<po::option_description> describe(const Flag& flag, TrainConfig* config) {
  const std::string name(flag.name);
  po::value_semantic* semantic = nullptr;
  if (flag.is_repeatable) {
    auto* value = po::value<std::vector<std::string>>()->value_name(std::string(flag.value));
    semantic = value->notifier([&flag, config](const std::vector<std::string>& given) {
      for (const std::string& item : given)
        flag.read(*config, item);
    });
  } else {
    auto* value = po::value<std::string>()->value_name(std::string(flag.value));
    // A switch: --overwrite alone is true, --overwrite=false turns it off.
    if (flag.value.empty()) value->implicit_value("true", "")->value_name("true|false");
    semantic = value->notifier([&flag, config](const std::string& given) { flag.read(*config, given); });
  }
  return boost::make_shared<po::option_description>(name.c_str(), semantic);
}

struct Description {
  po::options_description all;
  std::vector<std::string> names;
};

/// The file of --config, and --print-config where a run could begin.
void add_config_flags(po::options_description& all, std::vector<std::string>& names, FlagSet set, ParsedFlags& parsed) {
  const auto read = [&parsed](const std::string& path) {
    if (path.empty()) throw UsageError("--config is empty; give a file of settings");
    require_no_tilde("--config", path);
    parsed.config_file = path;
  };
  all.add_options()("config", po::value<std::string>()->notifier(read));
  names.emplace_back("config");
  if (set == FlagSet::bench) return;
  all.add_options()("print-config", po::bool_switch(&parsed.print_config));
  names.emplace_back("print-config");
}

boost::shared_ptr<po::option_description> describe(const PlanFlag& flag, PlanFlags* plan) {
  const std::string name(flag.name);
  auto* value = po::value<std::string>();
  if (flag.has_optional_value()) value->implicit_value("", "");
  value->notifier([&flag, plan](const std::string& given) { flag.read(*plan, given); });
  return boost::make_shared<po::option_description>(name.c_str(), value);
}

Description describe_all(FlagSet set, ParsedFlags& parsed) {
  Description description;
  const auto add = [&](std::string_view name, const boost::shared_ptr<po::option_description>& option) {
    description.all.add(option);
    description.names.emplace_back(name);
  };
  for (const Flag& flag : train_flags())
    if (has_flag(set, flag)) add(flag.name, describe(flag, &parsed.config));
  for (const PlanFlag& flag : own_flags(set))
    add(flag.name, describe(flag, &parsed.plan));
  add_config_flags(description.all, description.names, set, parsed);
  description.all.add_options()("help,h", po::bool_switch(&parsed.help));
  description.names.emplace_back("help");
  return description;
}

void read_plugin_name(const std::string& name, const std::vector<std::string>& values, TrainConfig& config) {
  constexpr std::string_view kNames[] = {"strategy", "comm", "device", "offload", "plugin-dir"};
  if (std::ranges::find(kNames, name) == std::end(kNames) || values.empty()) return;
  try {
    std::ranges::find(train_flags(), name, &Flag::name)->read(config, values[0]);
  } catch (const UsageError&) {
  }
}

std::vector<FileSetting> settings_of(const std::string& path) {
  try {
    return read_settings(path);
  } catch (const Error&) {
    return {};
  }
}

/// Reads what the help of plugins' options needs, also from --config. What is wrong is not an error here.
void read_plugin_names(const po::parsed_options& options, TrainConfig& config) {
  for (const po::option& option : options.options)
    if (option.string_key == "config" && !option.value.empty())
      for (const FileSetting& setting : settings_of(option.value[0]))
        read_plugin_name(setting.key, setting.values, config);
  for (const po::option& option : options.options)
    read_plugin_name(option.string_key, option.value, config);
}

std::string with_dashes(std::string argument) {
  if (argument.starts_with("--")) std::replace(argument.begin(), std::ranges::find(argument, '='), '_', '-');
  return argument;
}

[[noreturn]] void refuse_unknown(const std::string& name, const std::vector<std::string>& names) {
  throw UsageError(concat("unknown flag --", name, suggest_flag(name, names)));
}

/// -1 after a plugin's option is its value, which to Boost is an unknown short flag.
bool is_number(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && word.find_first_not_of("0123456789.e-") == word.npos;
}

/// A file without a flag before it is most often one of several that a pattern matched.
[[noreturn]] void refuse_word(const std::string& word) {
  std::error_code not_there;
  throw UsageError(concat(
      "'", word, "' is not a flag; flags start with two dashes",
      std::filesystem::exists(word, not_there) ? "; if it is of a pattern, put that in quotes: --data '*.bin'" : ""));
}

/// Collects options of plugins from the words that the first pass does not know.
class PluginFlagReader {
 public:
  explicit PluginFlagReader(const std::vector<std::string>& names) : names_(names) {}

  std::vector<PluginFlag> read(const po::parsed_options& options) {
    for (const po::option& option : options.options) {
      const std::string& word = option.original_tokens.at(0);
      // Boost handles known flags. Among the rest, a word without dashes is the value of the option before it.
      if (option.position_key < 0 && !option.unregistered)
        awaits_value_ = false;
      else if (awaits_value_ && (option.position_key >= 0 || is_number(word)))
        put_value(word);
      else if (option.position_key >= 0)
        refuse_word(word);
      else
        put_flag(word);
    }
    return std::move(flags_);
  }

 private:
  void put_value(const std::string& word) {
    flags_.back().value = word;
    flags_.back().has_value = true;
    awaits_value_ = false;
  }

  void put_flag(const std::string& word) {
    if (word.rfind("--", 0) != 0) throw UsageError(concat("unknown flag ", word, "; flags start with two dashes"));
    const size_t equals = std::min(word.find('='), word.size());
    const std::string name = word.substr(2, equals - 2);
    if (name.find('.') == std::string::npos) refuse_unknown(name, names_);
    if (std::ranges::count(flags_, name, &PluginFlag::name))
      throw UsageError(concat("--", name, " is given more than once; give it once"));
    awaits_value_ = equals == word.size();
    flags_.push_back({name, awaits_value_ ? "true" : word.substr(equals + 1), !awaits_value_});
  }

  const std::vector<std::string>& names_;
  std::vector<PluginFlag> flags_;
  bool awaits_value_ = false;
};

/// Boost's own error for a flag without a value does not say what to do.
[[noreturn]] void refuse_without_value(FlagSet set, const std::string& flag, const std::string& otherwise = "") {
  const std::string name = flag.substr(flag.find_first_not_of('-'));
  std::string_view value = "FILE";  // of --config
  if (const auto found = std::ranges::find(train_flags(), name, &Flag::name); found != train_flags().end())
    value = found->value;
  if (const auto own = std::ranges::find(own_flags(set), name, &PlanFlag::name); own != own_flags(set).end())
    value = own->value;
  throw UsageError(concat("--", name, " has no value; give ", value, " after it", otherwise));
}

/// Neither does the one for `--name=`.
void check_no_empty_value(const std::vector<std::string>& words) {
  for (const std::string& word : words)
    if (word.starts_with("--") && word.find('=') == word.size() - 1)
      throw UsageError(concat(word.substr(0, word.size() - 1), " has no value after '='; give one, or leave it out"));
}

bool needs_value(FlagSet set, std::string_view name) {
  const auto own = std::ranges::find(own_flags(set), name, &PlanFlag::name);
  if (own != own_flags(set).end()) return !own->has_optional_value();
  const auto flag = std::ranges::find(train_flags(), name, &Flag::name);
  return name == "config" || (flag != train_flags().end() && has_flag(set, *flag) && !flag->value.empty());
}

/// `--metrics --overwrite` would make a file named --overwrite. Most often a variable of a script is empty.
void check_values_follow(FlagSet set, const std::vector<std::string>& words) {
  for (size_t i = 0; i + 1 < words.size(); ++i)
    if (words[i].starts_with("--") && words[i + 1].starts_with("--") && needs_value(set, words[i].substr(2)))
      refuse_without_value(set, words[i], concat(", or ", words[i], "=", words[i + 1], " if that is the value"));
}

void check_required(FlagSet set, const TrainConfig& config) {
  if (config.model.empty() && set == FlagSet::eval)
    throw UsageError("the model is missing; give a folder with weights: tessera eval FOLDER --data PATH");
  if (config.model.empty()) throw UsageError("--model is missing; give the name of a model or a folder (see --help)");
  if ((set == FlagSet::train || set == FlagSet::eval) && config.data.empty())
    throw UsageError(
        "--data is missing; give a text file, a folder of text, a .bin file of tokens or, for a classifier, CSV or IDX "
        "files");
}

/// A number after --print-program is its value, which Boost takes only after '='.
void join_optional_values(std::vector<std::string>& words) {
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& next = words[i + 1];
    if (words[i] != "--print-program" || next.empty() || next.find_first_not_of("0123456789") != next.npos) continue;
    words[i] += "=" + next;
    words.erase(words.begin() + static_cast<ptrdiff_t>(i) + 1);
  }
}

void check_profile_flags(FlagSet set, const TrainConfig& config) {
  if (!config.profile && !config.profile_out.empty())
    throw UsageError(concat("--profile-out ", config.profile_out,
                            " has no effect without --profile FROM:TO; add it, or leave this out"));
  if (set == FlagSet::train && config.profile && config.profile->last > config.steps)
    throw UsageError(concat("--profile ", print_steps(*config.profile), " goes beyond --steps ", config.steps,
                            "; give steps from 1 to ", config.steps));
}

/// A flag without effect is a mistake, even where the result is well defined.
void check_effects(FlagSet set, const TrainConfig& config) {
  const TrainConfig usual;
  const auto refuse = [](const char* flag, const char* remedy) {
    throw UsageError(concat(flag, " has no effect ", remedy, ", or leave this out"));
  };
  if (config.optimizer == OptimizerKind::sgd && config.beta2 != usual.beta2)
    refuse("--beta2", "with --optimizer sgd, whose momentum is --beta1; give --optimizer adamw");
  if (config.optimizer == OptimizerKind::sgd && config.eps != usual.eps)
    refuse("--eps", "with --optimizer sgd; give --optimizer adamw");
  // Other commands also plan and measure what --offload might do.
  if (set != FlagSet::train || !config.offload.empty()) return;
  constexpr const char* kWithout = "without --offload; add it";
  if (!config.offload_dirs.empty()) refuse("--offload-dir", kWithout);
  if (config.offload_chunk != usual.offload_chunk) refuse("--offload-chunk", kWithout);
  if (config.offload_io != usual.offload_io) refuse("--offload-io", kWithout);
  if (config.offload_check != usual.offload_check) refuse("--offload-check", kWithout);
  if (config.host_memory > 0 && !config.save_async)
    refuse("--host-memory", "without --offload or --save-async; add one of them");
}

void check_together(FlagSet set, const TrainConfig& config) {
  requested_world(config);
  if (config.min_lr > config.lr)
    throw UsageError(concat("--min-lr ", shortest(config.min_lr), " is above --lr ", shortest(config.lr),
                            "; lower it, or raise --lr"));
  check_profile_flags(set, config);
  check_effects(set, config);
  if (config.min_lr > 0 && config.lr_schedule == LrSchedule::constant)
    throw UsageError(concat("--min-lr ", shortest(config.min_lr),
                            " has no effect without --lr-schedule linear or cosine; add one of them, or leave it out"));
  if (set == FlagSet::train && config.eval_data.empty() && (config.eval_every > 0 || config.eval_batches > 0))
    throw UsageError(concat("--eval-", config.eval_every > 0 ? "every " : "batches ",
                            config.eval_every > 0 ? config.eval_every : config.eval_batches,
                            " has no effect without --eval-data; add it, or leave this out"));
}

/// Boost checks this, but not for flags whose value is optional. `has_word`: the model was given as a word.
void check_given_once(const po::parsed_options& options, bool has_word) {
  const auto is_repeatable = [](const std::string& name) {
    const auto flag = std::ranges::find(train_flags(), name, [](const Flag& f) { return std::string(f.name); });
    return flag != train_flags().end() && flag->is_repeatable;
  };
  std::set<std::string> seen;
  for (const po::option& option : options.options)
    if (!option.unregistered && option.position_key < 0 && !seen.insert(option.string_key).second &&
        !is_repeatable(option.string_key))
      throw UsageError(has_word && option.string_key == "model"
                           ? "the model is named twice, by the folder and by --model; leave one of them out"
                           : concat("--", option.string_key, " is given more than once; give it once"));
}

std::set<std::string> names_of(const po::parsed_options& options) {
  std::set<std::string> names;
  for (const po::option& option : options.options)
    if (!option.unregistered && option.position_key < 0) names.insert(option.string_key);
  return names;
}

/// `tessera eval FOLDER` is `tessera eval --model FOLDER`. Returns whether it is written so.
bool name_model(std::vector<std::string>& words) {
  if (words.empty() || words[0].starts_with("-")) return false;
  words.insert(words.begin(), "--model");
  return true;
}

}  // namespace

ParsedFlags parse_flags(FlagSet set, std::span<const std::string> arguments) {
  ParsedFlags parsed;
  parsed.set = set;
  const Description description = describe_all(set, parsed);
  std::vector<std::string> normal;
  std::transform(arguments.begin(), arguments.end(), std::back_inserter(normal), with_dashes);
  const bool has_word = set == FlagSet::eval && name_model(normal);
  join_optional_values(normal);
  check_no_empty_value(normal);
  check_values_follow(set, normal);
  // No guessing: --st might be --steps today and ambiguous, or another flag, in the next version.
  const int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  try {
    const po::parsed_options options =
        po::command_line_parser(normal).options(description.all).style(style).allow_unregistered().run();
    // Before anything is checked: --help must work even if other flags are wrong.
    parsed.help = std::ranges::count(options.options, std::string("help"), &po::option::string_key) > 0;
    if (parsed.help) {
      read_plugin_names(options, parsed.config);
      return parsed;
    }
    check_given_once(options, has_word);
    parsed.plugin_flags = PluginFlagReader(description.names).read(options);
    po::variables_map values;
    po::store(options, values);
    po::notify(values);
    if (!parsed.config_file.empty()) take_settings(parsed, names_of(options));
  } catch (const po::invalid_command_line_syntax& e) {
    if (e.kind() == po::invalid_syntax::missing_parameter) refuse_without_value(set, e.get_option_name());
    throw UsageError(concat(e.what(), "; see --help"));
  } catch (const po::error& e) {
    throw UsageError(concat(e.what(), "; see --help"));
  }
  check_required(set, parsed.config);
  if (set == FlagSet::bench && parsed.plan.rates.empty())
    throw UsageError("--rates is missing; give a file for what is measured");
  try {
    check_together(set, parsed.config);
    check_checkpoint_flags(parsed.config);
  } catch (const UsageError& e) {
    if (parsed.config_file.empty()) throw;
    throw UsageError(concat(e.what(), " (what the command line does not give is of ", parsed.config_file, ")"),
                     e.code());
  }
  name_resumed_folder(parsed.config);
  check_plan(parsed.plan);
  return parsed;
}

}  // namespace tessera::host
