// Keys are the names of flags, values have the type that one expects in JSON: a number for --lr, true or false for a
// switch, text for the rest. Reading is strict: a setting that is silently ignored would start a different run from the
// intended one.
//
//     {
//       "tessera": "1.0.0",
//       "model": "gpt2", "lr": 0.0003, "overwrite": false, "freeze": ["wte*", "*.bias"], "eval-data": null,
//       "dp.ddp.bucket-mb": 25.0
//     }

#include "config/settings/settings_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/concat.h"
#include "base/read_only_file.h"
#include "base/strict_json.h"
#include "config/flag_table.h"
#include "config/help/did_you_mean.h"
#include "config/usage_error.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

using Json = nlohmann::ordered_json;

// The begin of a file tells ours from a user's, which --out must not replace.
constexpr std::string_view kVersionKey = "tessera", kBegin = "{\n  \"tessera\": \"";
constexpr uint64_t kMaxFileBytes = 1 << 20;
constexpr int kMaxDepth = 2;  // of arrays

Json value_of(const Flag& flag, const TrainConfig& config) {
  if (flag.items) return flag.items(config);
  const std::string text = flag.print(config);
  if (text.empty()) return nullptr;
  // By way of the text, a whole number stays one: 4, not 4.0.
  return flag.kind == FlagKind::text ? Json(text) : Json::parse(text);
}

std::string_view type_of(FlagKind kind) {
  return kind == FlagKind::number ? "a number" : kind == FlagKind::boolean ? "true or false" : "a string in quotes";
}

bool has_type(const nlohmann::json& value, FlagKind kind) {
  return kind == FlagKind::number    ? value.is_number()
         : kind == FlagKind::boolean ? value.is_boolean()
                                     : value.is_string();
}

std::string text_of(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// Refuses a key of the file at `path`.
template <class... Parts>
[[noreturn]] void refuse(const std::string& path, const std::string& key, const Parts&... parts) {
  throw UsageError(concat("--config ", path, ": \"", key, "\" ", parts...));
}

/// A path that holds a zero character would end there.
void check_no_zero(const std::string& path, const std::string& key, const nlohmann::json& value) {
  if (value.is_string() && value.get_ref<const std::string&>().find('\0') != std::string::npos)
    refuse(path, key, "is ", value.dump(), ", which has a zero character; remove it");
}

FileSetting flag_setting(const std::string& path, const std::string& key, const nlohmann::json& value) {
  const auto flags = train_flags();
  const auto flag = std::ranges::find(flags, key, [](const Flag& f) { return std::string(f.name); });
  if (flag == flags.end()) {
    std::vector<std::string> names;
    for (const Flag& known : flags)
      names.emplace_back(known.name);
    const std::string near = nearest(key, names);
    refuse(path, key, "is not a setting; its keys are the names of flags without dashes",
           near.empty() ? "" : concat("; did you mean \"", near, "\"?"));
  }
  FileSetting setting{key, {}};
  if (value.is_null()) return setting;
  const nlohmann::json list = flag->items ? value : nlohmann::json::array({value});
  if (!list.is_array()) refuse(path, key, "is ", value.dump(), "; give a list of strings: [\"...\"]");
  for (const nlohmann::json& item : list) {
    if (!has_type(item, flag->kind)) refuse(path, key, "is ", item.dump(), "; give ", type_of(flag->kind));
    check_no_zero(path, key, item);
    setting.values.push_back(text_of(item));
  }
  return setting;
}

FileSetting option_setting(const std::string& path, const std::string& key, const nlohmann::json& value) {
  if (value.is_null()) return {key, {}};
  if (!value.is_primitive()) refuse(path, key, "is ", value.dump(), "; give a number, true or false, or a string");
  check_no_zero(path, key, value);
  return {key, {text_of(value)}};
}

std::string settings_text(const std::string& path) {
  std::string text = read_text_or_pipe(path, kMaxFileBytes);
  if (text.empty() && is_pipe(path))
    throw Error(TSR_E_INVALID_ARGUMENT,
                concat(path,
                       " is a pipe in which nothing is left; it can be read once, by one process, so give "
                       "several ranks a file"));
  return text;
}

}  // namespace

std::string settings_json(const TrainConfig& config, FlagSet set, std::span<const PluginSetting> options,
                          std::string_view version) {
  Json json = {{kVersionKey, version}};
  for (const Flag& flag : train_flags())
    if (has_flag(set, flag)) json[std::string(flag.name)] = value_of(flag, config);
  for (const PluginSetting& option : options)
    std::visit([&](const auto& value) { json[option.name] = value; }, option.value);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";  // a path need not be UTF-8
}

std::string flag_not_in_utf8(const TrainConfig& config, FlagSet set) {
  for (const Flag& flag : train_flags())
    try {
      if (has_flag(set, flag)) value_of(flag, config).dump();
    } catch (const Json::type_error&) {
      return std::string(flag.name);
    }
  return "";
}

bool begins_like_settings(std::string_view begin) {
  return begin.starts_with(kBegin);
}

std::vector<FileSetting> read_settings(const std::string& path) {
  nlohmann::json json;
  try {
    json = parse_strict_json(settings_text(path), path, kMaxDepth);
  } catch (const Error& error) {
    throw UsageError(concat("--config: ", error.what()), error.code());
  }
  std::vector<FileSetting> settings;
  for (const auto& [key, value] : json.items()) {
    if (key == kVersionKey && !value.is_string()) refuse(path, key, "is ", value.dump(), "; give a string in quotes");
    if (key == kVersionKey) continue;
    settings.push_back(key.find('.') == key.npos ? flag_setting(path, key, value) : option_setting(path, key, value));
  }
  return settings;
}

}  // namespace tessera::host
