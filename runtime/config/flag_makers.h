// The usual kinds of flags: how the text of each is read into a field of TrainConfig, and printed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/concat.h"
#include "config/flag.h"
#include "config/text_values.h"
#include "config/usage_error.h"

namespace tessera::host {

inline Flag text(std::string_view group, std::string_view name, std::string_view value, std::string_view help,
                 std::string TrainConfig::*field) {
  const auto read = [field, name](TrainConfig& config, std::string_view given) {
    if (given.empty()) throw UsageError(concat("--", name, " is empty; give a value or leave it out"));
    require_no_tilde(concat("--", name), given);
    config.*field = std::string(given);
  };
  return {group, name, value, help, read, [field](const TrainConfig& config) { return config.*field; }};
}

inline Flag numeric(Flag flag) {
  flag.kind = FlagKind::number;
  return flag;
}

template <class T>
Flag integer(std::string_view group, std::string_view name, std::string_view help, T TrainConfig::*field, int64_t min,
             int64_t max) {
  const auto read = [=](TrainConfig& config, std::string_view given) {
    config.*field = static_cast<T>(parse_integer(name, given, min, max));
  };
  return numeric(
      {group, name, "N", help, read, [field](const TrainConfig& config) { return std::to_string(config.*field); }});
}

/// 0 is not set.
inline Flag bytes(std::string_view group, std::string_view name, std::string_view help, uint64_t TrainConfig::*field,
                  uint64_t least = 0) {
  const auto read = [=](TrainConfig& config, std::string_view given) {
    const uint64_t num_bytes = parse_bytes(name, given);
    if (num_bytes < least)
      throw UsageError(concat("--", name, " is ", given, "; give ", print_bytes(least), " or more"));
    config.*field = num_bytes;
  };
  const auto print = [=](const TrainConfig& config) { return config.*field ? print_bytes(config.*field) : ""; };
  return {group, name, "SIZE", help, read, print};
}

inline Flag number(std::string_view group, std::string_view name, std::string_view help, double TrainConfig::*field,
                   double min, double max) {
  const auto read = [=](TrainConfig& config, std::string_view given) {
    config.*field = parse_number(name, given, min, max);
  };
  return numeric(
      {group, name, "X", help, read, [field](const TrainConfig& config) { return shortest(config.*field); }});
}

template <class E>
Flag choice(std::string_view group, std::string_view name, std::string_view choices, std::string_view help,
            E TrainConfig::*field) {
  const auto read = [=](TrainConfig& config, std::string_view given) {
    config.*field = static_cast<E>(parse_choice(name, given, choices));
  };
  const auto print = [=](const TrainConfig& config) { return std::string(to_string(config.*field)); };
  return {group, name, choices, help, read, print};
}

/// A choice whose default depends on other settings.
template <class E>
Flag choice(std::string_view group, std::string_view name, std::string_view choices, std::string_view help,
            std::optional<E> TrainConfig::*field) {
  const auto read = [=](TrainConfig& config, std::string_view given) {
    config.*field = static_cast<E>(parse_choice(name, given, choices));
  };
  const auto print = [=](const TrainConfig& config) {
    return std::string(config.*field ? to_string(*(config.*field)) : "");
  };
  return {group, name, choices, help, read, print};
}

inline Flag boolean(std::string_view group, std::string_view name, std::string_view help, bool TrainConfig::*field) {
  const auto read = [=](TrainConfig& config, std::string_view given) { config.*field = parse_bool(name, given); };
  const auto print = [=](const TrainConfig& config) { return std::string(config.*field ? "true" : "false"); };
  Flag flag = {group, name, "", help, read, print};
  flag.kind = FlagKind::boolean;
  return flag;
}

inline Flag local(Flag flag) {
  flag.is_shared = false;
  return flag;
}

inline Flag train_only(Flag flag) {
  flag.is_train_only = true;
  return flag;
}

/// Several values with commas between them; none may be empty.
inline Flag list(std::string_view group, std::string_view name, std::string_view value, std::string_view help,
                 std::vector<std::string> TrainConfig::*field) {
  const auto read = [=](TrainConfig& config, std::string_view given) {
    (config.*field).clear();
    for (const std::string_view part : split(given, ',')) {
      if (part.empty())
        throw UsageError(concat("--", name, " '", given, "' has an empty part; give values with commas between them"));
      require_no_tilde(concat("--", name), part);
      (config.*field).emplace_back(part);
    }
  };
  return {group, name, value, help, read, [=](const TrainConfig& config) { return print_list(config.*field); }};
}

}  // namespace tessera::host
