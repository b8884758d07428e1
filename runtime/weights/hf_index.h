// The index of weights that are cut over several files.
#pragma once

#include <map>
#include <string>

namespace tessera::host {

/// Reads a `model.safetensors.index.json`: the file's name for each tensor's name. Files are beside the index, so a
/// name with a slash is refused. Throws INVALID_ARGUMENT, naming what is wrong.
std::map<std::string, std::string> read_safetensors_index(const std::string& path);

}  // namespace tessera::host
