// What `--model` may be.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/architecture.h"

namespace tessera::host {

/// Whether `given` is the folder of a model; else it is a name. Throws INVALID_ARGUMENT for what can be neither, saying
/// what it looks like (a path that is not there, a file, an id of the Hugging Face hub, an address, a name that is
/// nearly right) and what to give instead.
bool is_model_folder(const std::string& given);

/// What `--model` names.
struct NamedArchitecture {
  std::shared_ptr<const Architecture> architecture;
  std::string hub_id = {};                 ///< of the weights of a size that is given by name; empty: there are none
  std::vector<std::string> warnings = {};  ///< of what a folder's config.json asks of training and is not done
  std::string config = {};                 ///< the text of a folder's config.json; empty: it was given by name
};

/// Throws UsageError for what is_model_folder refuses and for a name that is unknown or wrong; for a folder whose
/// config.json is wrong, INVALID_ARGUMENT or UNSUPPORTED naming file and key.
NamedArchitecture find_architecture(const std::string& given);

/// The commands that put a model of the Hugging Face hub into `folder` and train it, for the end of a sentence.
std::string how_to_download(const std::string& hub_id, const std::string& folder);

}  // namespace tessera::host
