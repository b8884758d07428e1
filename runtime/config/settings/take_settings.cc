// A flag on the command line overrides the value in the file, and also values that only make sense together with it:
//
//     --nproc, --mesh             together they are the number of ranks: either overrides both
//     --resume, --init-from       exclude one another
//     --save, --out               of another run, which does not go on with the one that the file is of: --resume, and
//                                 --profile-out and --metrics in the file's --out
//     --offload none              --offload-dir and the others that only policies use
//     --strategy, --comm, ...     the options of a plugin that they no longer name
//     --ddp.bucket-mb             "dp.ddp.bucket-mb", which would win over it
//     --dp.ddp.bucket-mb          "ddp.bucket-mb" on that axis
//
// Each of these is a note for the log.

#include "config/settings/take_settings.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/concat.h"
#include "config/flag_table.h"
#include "config/settings/settings_file.h"
#include "config/text_values.h"
#include "config/usage_error.h"

namespace tessera::host {
namespace {

/// A flag that overrides the file's value of another one.
constexpr std::pair<std::string_view, std::string_view> kVoids[] = {
    {"nproc", "mesh"}, {"mesh", "nproc"}, {"resume", "init-from"}, {"init-from", "resume"}};
/// Flags that name plugins.
constexpr std::array<std::string_view, 4> kNamesPlugins = {"strategy", "comm", "device", "offload"};
/// Flags that name what a job reads.
constexpr std::array<std::string_view, 5> kPaths = {"model", "data", "eval-data", "resume", "init-from"};
/// What settings_json() writes for bytes that are not UTF-8: U+FFFD.
constexpr std::string_view kReplaced = "\xEF\xBF\xBD";

const Flag& flag_of(std::string_view name) {
  return *std::ranges::find(train_flags(), name, &Flag::name);
}

/// The value as one text, for comparison and log.
std::string shown(const Flag& flag, const TrainConfig& config) {
  return flag.items ? print_list(flag.items(config)) : flag.print(config);
}

/// "ddp.bucket-mb" of "dp.ddp.bucket-mb"
std::string without_axis(const std::string& option) {
  const auto parts = split(option, '.');
  return parts.size() < 3 ? option : concat(parts[parts.size() - 2], ".", parts.back());
}

class Taking {
 public:
  Taking(ParsedFlags& flags, const std::set<std::string>& given)
      : flags_(flags), path_(flags.config_file), given_(given), settings_(read_settings(path_)) {}

  void run() {
    for (const FileSetting& setting : settings_) {
      if (setting.values.empty()) continue;
      if (setting.key.find('.') != setting.key.npos)
        take_option(setting);
      else if (const Flag* flag = flag_for(setting.key))
        take_flag(*flag, setting);
    }
  }

 private:
  /// The flag that the key sets; null: the command has none.
  const Flag* flag_for(const std::string& key) const {
    if (flags_.set == FlagSet::eval && key == "data" && has_key("eval-data")) return nullptr;
    const std::string_view name = flags_.set == FlagSet::eval && key == "eval-data" ? "data" : std::string_view(key);
    const Flag& flag = flag_of(name);
    return has_flag(flags_.set, flag) ? &flag : nullptr;
  }
  bool has_key(std::string_view key) const { return std::ranges::count(settings_, key, &FileSetting::key) > 0; }

  void read(const Flag& flag, const FileSetting& setting, TrainConfig& config) const {
    try {
      for (const std::string& value : setting.values)
        flag.read(config, value);
    } catch (const UsageError& error) {
      throw UsageError(concat("--config ", path_, ": \"", setting.key, "\": ", error.what()), error.code());
    }
  }

  void take_flag(const Flag& flag, const FileSetting& setting) {
    TrainConfig of_file;
    read(flag, setting, of_file);
    const std::string here = shown(flag, flags_.config), there = shown(flag, of_file);
    if (given_.contains(std::string(flag.name))) {
      if (here != there)
        note("--", flag.name, " is ", here.empty() ? "none" : here, ", from the command line; --config ", path_,
             " has ", there);
    } else if (const std::string_view other = voided_by(flag.name); !other.empty()) {
      if (there != shown(flag, TrainConfig()))
        note("--config ", path_, ": \"", setting.key, "\", ", there, ", is ignored, since the command line has --",
             other);
    } else {
      read(flag, setting, flags_.config);
      const std::string& path = setting.values[0];
      const bool is_doubtful = !path.starts_with('/') || path.find(kReplaced) != path.npos;
      if (is_doubtful && std::ranges::count(kPaths, flag.name) > 0) flags_.doubtful_paths.emplace_back(flag.name, path);
    }
  }

  /// The file's value, as it is there; empty where it has none.
  std::string value_of(std::string_view key) const {
    const auto setting = std::ranges::find(settings_, key, &FileSetting::key);
    return setting == settings_.end() || setting->values.empty() ? "" : setting->values[0];
  }
  /// Whether command line and file name two folders for this flag.
  bool is_elsewhere(std::string_view flag) const {
    const std::string there = value_of(flag);
    return given_.contains(std::string(flag)) && !there.empty() && there != shown(flag_of(flag), flags_.config);
  }

  /// The flag on the command line that overrides the file's `name`.
  std::string_view voided_by(std::string_view name) const {
    for (const auto& [by, what] : kVoids)
      if (what == name && given_.contains(std::string(by))) return by;
    for (const std::string_view by : {"save", "out"})
      if (name == "resume" && is_elsewhere(by)) return by;
    if (name.starts_with("offload-") && given_.contains("offload") && flags_.config.offload.empty())
      return "offload none";
    if ((name == "profile-out" || name == "metrics") && is_elsewhere("out") &&
        value_of(name).starts_with(value_of("out") + "/"))
      return "out";
    return "";
  }

  /// Whether the file names the option's plugin by flags alone that the command lacks, as eval lacks --offload.
  bool is_of_unused_plugin(const std::string& option) const {
    const auto parts = split(option, '.');
    if (parts.size() < 2) return false;
    const std::string_view plugin = parts[parts.size() - 2];
    bool is_named = false;
    for (const FileSetting& setting : settings_) {
      if (std::ranges::count(kNamesPlugins, setting.key) == 0 || setting.values.empty()) continue;
      if (setting.values[0].find(plugin) == std::string::npos) continue;
      if (has_flag(flags_.set, flag_of(setting.key))) return false;
      is_named = true;
    }
    return is_named;
  }

  void take_option(const FileSetting& setting) {
    if (is_of_unused_plugin(setting.key)) return;
    const auto given = std::ranges::find_if(flags_.plugin_flags, [&](const PluginFlag& flag) {
      return flag.file.empty() && (flag.name == setting.key || flag.name == without_axis(setting.key));
    });
    if (given != flags_.plugin_flags.end()) {
      note_other_value(*given, setting);
    } else if (const std::string_view flag = replaced_by(setting.key); !flag.empty()) {
      note("--config ", path_, ": \"", setting.key, "\" is ignored, since --", flag,
           " of the command line names other plugins");
    } else {
      for (const PluginFlag& own : flags_.plugin_flags)
        if (own.file.empty() && without_axis(own.name) == setting.key) note_other_value(own, setting);
      flags_.plugin_flags.push_back({setting.key, setting.values[0], true, path_});
    }
  }

  void note_other_value(const PluginFlag& given, const FileSetting& setting) {
    if (given.value != setting.values[0])
      note("--", given.name, " is ", given.value, ", from the command line; --config ", path_, " has ",
           setting.values[0]);
  }

  /// The flag on the command line that names plugins other than the one this option belongs to, while the file's value
  /// of that flag names it; empty: none.
  std::string_view replaced_by(const std::string& option) const {
    const auto parts = split(option, '.');
    if (parts.size() < 2) return "";
    const std::string_view plugin = parts[parts.size() - 2];
    for (const FileSetting& setting : settings_) {
      const auto flag = std::ranges::find(kNamesPlugins, setting.key);
      if (flag == kNamesPlugins.end() || setting.values.empty() || !given_.contains(setting.key)) continue;
      const std::string here = shown(flag_of(*flag), flags_.config);
      if (setting.values[0].find(plugin) != std::string::npos && here.find(plugin) == here.npos) return *flag;
    }
    return "";
  }

  template <class... Parts>
  void note(const Parts&... parts) {
    flags_.notes.push_back(concat(parts...));
  }

  ParsedFlags& flags_;
  const std::string& path_;
  const std::set<std::string>& given_;
  const std::vector<FileSetting> settings_;
};

}  // namespace

void take_settings(ParsedFlags& flags, const std::set<std::string>& given) {
  Taking(flags, given).run();
}

std::string origin_of_path(const ParsedFlags& flags, std::string_view sentence) {
  for (const auto& [flag, path] : flags.doubtful_paths) {
    if (sentence.find(path) == sentence.npos) continue;
    const std::string origin = concat(" (--", flag, " is of --config ", flags.config_file);
    if (path.find(kReplaced) != path.npos)
      return concat(origin, ", where \"", kReplaced, "\" is in the place of what is not UTF-8 in the name; give --",
                    flag, ")");
    if (sentence.find(concat("--", flag, " ", path)) != sentence.npos)
      return concat(origin, "; a relative path there counts from the current folder: start in the folder of that run, ",
                    "or give --", flag, ")");
  }
  return "";
}

}  // namespace tessera::host
