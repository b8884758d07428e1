// The weights of a Hugging Face folder.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture.h"
#include "model/model.h"
#include "model/parameter_source.h"
#include "weights/safetensors.h"

namespace tessera::host {

/// Weights by parameter name, from `model.safetensors` or, without it, the files of its sharded index. Strict: tensors
/// and parameters must match one to one in name (with or without the model's prefix) and shape. TensorNames allows two
/// exceptions: tensors that are skipped, and a copy of a tied parameter, which must equal it element by element.
class HuggingFaceWeights : public ParameterSource {
 public:
  /// Opens all files and checks everything but the parameters' values. Throws INVALID_ARGUMENT naming the tensor and
  /// the file (and both shapes where they differ), UNSUPPORTED for an element type that is not a float, NOT_FOUND when
  /// there are no files, and what find_weight_files throws.
  HuggingFaceWeights(const std::string& folder, std::span<const Parameter> parameters, const TensorNames& names);

  /// Throws INVALID_ARGUMENT, naming file, tensor and element, for a value that is NaN or infinite.
  void read(std::string_view parameter, uint64_t offset, std::span<float> out) const override;

 private:
  struct Place {
    const SafetensorsFile* file;
    std::string name;  // with its prefix
  };

  void open_files(const std::string& folder);
  void place_tensors(const SafetensorsFile& file);
  /// The end of the error about a missing parameter that exists under a longer name; else empty.
  std::string wrapper_hint(const std::string& parameter) const;
  void check_parameters(std::span<const Parameter> parameters) const;
  void check_copy(const Place& head) const;

  std::string folder_;
  TensorNames names_;
  std::vector<SafetensorsFile> files_;                // never grows once places_ points into it
  std::map<std::string, Place, std::less<>> places_;  // by name without prefix
};

}  // namespace tessera::host
