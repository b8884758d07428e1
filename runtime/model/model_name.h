// What `--model` may be.
#pragma once

#include <string>

namespace tessera::host {

/// Whether `given` is the folder of a model; else it is a name for gpt2_config_by_name, which knows the names. Throws
/// INVALID_ARGUMENT for what can be neither, saying what it looks like (a path that is not there, a file, an id of the
/// Hugging Face hub, an address, a name that is nearly right) and what to give instead.
bool is_model_folder(const std::string& given);

/// The commands that put a model of the Hugging Face hub into `folder` and train it, for the end of a sentence.
std::string how_to_download(const std::string& hub_id, const std::string& folder);

}  // namespace tessera::host
