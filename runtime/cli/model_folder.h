// A folder with a trained model.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/index.h"
#include "model/model_name.h"
#include "model/parameter_source.h"

namespace tessera::host {

/// A model and where its weights are read from.
struct ModelFolder {
  NamedArchitecture named;
  std::unique_ptr<ParameterSource> weights;
  int64_t trained_seq_len = 0;      ///< tokens of a sequence in training, as a checkpoint says; 0: not known
  std::string trained_tokens = {};  ///< kBytes or kNumbers, as a checkpoint says; empty: not known

  const Architecture& architecture() const { return *named.architecture; }
};

/// The checkpoint that `given` means: that in this folder, or the newest in a folder of --save. Nothing for any other.
std::optional<std::string> checkpoint_of(const std::string& given);

/// The value of a flag that changes results, in the run that was saved; empty: it was not given.
std::string trained_setting(const RunDescription& run, std::string_view flag);
/// The --seq-len of the run that was saved; 0: that of the model.
int64_t trained_seq_len(const RunDescription& run);

/// Opens a checkpoint, or a Hugging Face folder: config.json with model.safetensors, or with an index of several files.
/// Throws UsageError for one without weights, and what reading config.json and opening the weights throw.
ModelFolder open_model_folder(const std::string& folder);

}  // namespace tessera::host
