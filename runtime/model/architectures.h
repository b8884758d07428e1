// The list of the architectures.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture.h"

namespace tessera::host {

/// Every family, in the order of --help.
std::span<const ArchitectureFamily* const> architecture_families();

/// The names of all sizes, of all families.
std::vector<std::string> model_names();
/// What `--model` may be, for --help: lines for each family, and for folders.
std::string models_help();
/// The families that read folders, by `model_type`: "\"a\"", or "\"a\" and \"b\"".
std::string model_types();
/// How the file names of weights in formats that are not read begin: "gpt2_", ...
std::vector<std::string_view> foreign_weight_names();

}  // namespace tessera::host
