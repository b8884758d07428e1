// The keys of a config.json, read strictly: a number that is text, or a heading that is missing, is a mistake, and a
// model of other extents than were meant trains without a word.

#include "model/config_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/read_only_file.h"
#include "base/strict_json.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxFileBytes = 16 << 20;
constexpr int kMaxDepth = 16;

}  // namespace

struct ConfigFile::Object {
  explicit Object(json object) : keys(std::move(object)) {}

  json keys;

  const json* find(const char* key) const {
    const auto found = keys.find(key);
    return found == keys.end() || found->is_null() ? nullptr : &*found;
  }
};

ConfigFile::ConfigFile(const std::string& path)
    : path_(path),
      contents_(read_text_file(path, kMaxFileBytes)),
      object_(std::make_unique<Object>(parse_strict_json(contents_, path, kMaxDepth))) {}

ConfigFile::~ConfigFile() = default;

void ConfigFile::refuse_with(tsr_status code, const std::string& message) {
  throw Error(code, printable(message));  // a zero byte would end it
}

bool ConfigFile::has(const char* key) const {
  return object_->find(key) != nullptr;
}

int64_t ConfigFile::extent(const char* key, int64_t max) const {
  const json* value = object_->find(key);
  if (!value) refuse(TSR_E_INVALID_ARGUMENT, key, "is missing");
  if (!value->is_number_unsigned() || value->get<uint64_t>() < 1 ||
      value->get<uint64_t>() > static_cast<uint64_t>(max)) {
    refuse(TSR_E_INVALID_ARGUMENT, key, "is ", value->dump(), ", not a whole number from 1 to ", max);
  }
  return value->get<int64_t>();
}

std::string ConfigFile::tokens(const char* key, int64_t vocab) const {
  const auto found = object_->keys.find(key);
  if (found == object_->keys.end()) return "";
  const json& value = *found;
  const auto is_token = [&](const json& one) {
    return one.is_number_unsigned() && one.get<uint64_t>() < static_cast<uint64_t>(vocab);
  };
  const bool are_tokens =
      value.is_null() || is_token(value) || (value.is_array() && std::ranges::all_of(value, is_token));
  return are_tokens ? value.dump() : "";
}

double ConfigFile::number(const char* key, double absent) const {
  const json* value = object_->find(key);
  if (!value) return absent;
  if (!value->is_number()) refuse(TSR_E_INVALID_ARGUMENT, key, "is ", value->dump(), ", not a number");
  return value->get<double>();
}

bool ConfigFile::boolean(const char* key, bool absent) const {
  const json* value = object_->find(key);
  if (!value) return absent;
  if (!value->is_boolean()) refuse(TSR_E_INVALID_ARGUMENT, key, "is ", value->dump(), ", not true or false");
  return value->get<bool>();
}

std::string ConfigFile::text(const char* key, const char* absent) const {
  const json* value = object_->find(key);
  if (!value) return absent;
  if (!value->is_string()) refuse(TSR_E_INVALID_ARGUMENT, key, "is ", value->dump(), ", not a string");
  return value->get<std::string>();
}

}  // namespace tessera::host
