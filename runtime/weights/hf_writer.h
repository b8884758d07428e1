// Writing a Hugging Face folder.
#pragma once

#include <cstdint>
#include <string>

#include "base/progress.h"
#include "model/architecture.h"
#include "model/parameter_source.h"

namespace tessera::host {

/// How weights are written.
struct HuggingFaceOutput {
  std::string folder = {};
  uint64_t max_shard_bytes = UINT64_MAX;  ///< of a file's tensors; one larger tensor has a file of its own
  tsr_dtype dtype = TSR_F32;              ///< float32, or 16 bits, rounded to nearest even
};

/// Writes model.safetensors, or files model-00001-of-0000N.safetensors and their index when the tensors take more than
/// max_shard_bytes, and then config.json: a folder without it is not complete. Names are those of the parameters after
/// the model's prefix, shapes and order of elements are unchanged; a tied copy is left out, as transformers leaves it
/// out. The folder exists. Throws UNSUPPORTED for a model that Hugging Face has no config.json for, INVALID_ARGUMENT
/// for a weight that is not finite, or too large for `dtype`, and what reading and writing throw. `progress`, if any,
/// counts parameters. When it throws, none of these files is left.
void write_hugging_face_folder(const Architecture& architecture, const ParameterSource& weights,
                               const HuggingFaceOutput& output, Progress* progress = nullptr);

}  // namespace tessera::host
