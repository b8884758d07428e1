// --config FILE: the flags that the command line does not give.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "config/parsed_flags.h"
#include "config/usage_error.h"

namespace tessera::host {

/// Reads the file that `flags` names, and sets what the command line has not: `given` has the names of its flags, whose
/// values `flags` has. Values that the command line overrides are listed in flags.notes. Keys of flags that the command
/// does not have are ignored; `eval` takes its --data from "eval-data". Throws UsageError, with file and key.
void take_settings(ParsedFlags& flags, const std::set<std::string>& given);

/// " (--data is of ...)" for a sentence about one of flags.doubtful_paths; empty for any other sentence.
std::string origin_of_path(const ParsedFlags& flags, std::string_view sentence);

/// Calls `work`; its UsageError gets that origin.
template <class Work>
auto naming_origin(const ParsedFlags& flags, Work&& work) {
  try {
    return work();
  } catch (const UsageError& error) {
    throw UsageError(error.what() + origin_of_path(flags, error.what()), error.code());
  }
}

}  // namespace tessera::host
