// The settings of a run as a JSON file: config.json of --out, which --config reads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/parsed_flags.h"

namespace tessera::host {

/// An option of a plugin, as it was resolved.
struct PluginSetting {
  std::string name;  ///< "ddp.bucket-mb", or "dp.ddp.bucket-mb" for one axis
  std::variant<int64_t, double, bool, std::string> value;
};

/// One JSON object: the version of tessera, then a key for each flag that `set` has, in the order of the help, then the
/// options. A flag that is not set is null; a repeatable one is an array.
std::string settings_json(const TrainConfig& config, FlagSet set, std::span<const PluginSetting> options,
                          std::string_view version);

/// The first flag whose value is not UTF-8, such as a path: settings_json() writes U+FFFD for what is not. Empty: none.
std::string flag_not_in_utf8(const TrainConfig& config, FlagSet set);

/// Whether a file that begins like this was written by settings_json().
bool begins_like_settings(std::string_view begin);

/// One key of such a file.
struct FileSetting {
  std::string key;
  std::vector<std::string> values;  ///< as flags take them; none for null, else one, unless the flag is repeatable
};

/// Reads a file of settings. Throws UsageError, with file and key, for what is not such an object, an unknown key and a
/// value of another type.
std::vector<FileSetting> read_settings(const std::string& path);

}  // namespace tessera::host
