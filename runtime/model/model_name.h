// What `--model` may be.
#pragma once

#include <string>

namespace tessera {

/// Whether `given` is the folder of a model; else it is a name for gpt2_config_by_name, which knows the names. Throws
/// INVALID_ARGUMENT for what can be neither, saying what it looks like (a path that is not there, a file, an id of the
/// Hugging Face hub, an address, a name that is nearly right) and what to give instead.
bool is_model_folder(const std::string& given);

}  // namespace tessera
