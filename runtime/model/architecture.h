// A kind of model, as the host sees it: what it needs from flags, data and files, and the model it builds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/config_file.h"
#include "model/model.h"
#include "model/model_builder.h"

namespace tessera::host {

/// A model that reads tokens and predicts the next one.
struct TokenInputs {
  int64_t vocab = 0;    ///< number of tokens it knows
  int64_t max_seq = 0;  ///< longest sequence; what --seq-len is when it is not given
};

/// A model that reads features and predicts a class.
struct ExampleInputs {
  int64_t num_features = 0;
  int64_t num_classes = 0;
};

/// What a model is trained on.
using ModelInputs = std::variant<TokenInputs, ExampleInputs>;

/// What its data consists of: "tokens" or "examples".
inline std::string_view items_of(const ModelInputs& inputs) {
  return std::holds_alternative<TokenInputs>(inputs) ? "tokens" : "examples";
}

/// How the files of a Hugging Face folder name a model's tensors. They are the names of its parameters, and besides:
struct TensorNames {
  std::string_view prefix;     ///< all names may begin with it: "transformer."
  std::string_view tied_copy;  ///< may be there, and must then equal the parameter `tied_to`: "lm_head.weight"
  std::string_view tied_to;
  /// Whether a tensor (its name without prefix) is not a parameter, and skipped.
  bool (*is_skipped)(std::string_view name) = [](std::string_view) { return false; };
};

/// A fact about a model, as text: {"layers of the model", "12"}.
struct ModelFact {
  std::string name;
  std::string value;
};

/// One architecture with its dimensions. All functions: [any-thread].
class Architecture {
 public:
  virtual ~Architecture() = default;

  /// The model for micro-batches of that shape. Throws INVALID_ARGUMENT for one that it cannot take.
  virtual Model build(const BatchShape& shape) const = 0;
  virtual ModelInputs inputs() const = 0;
  virtual int64_t num_layers() const = 0;
  /// Of the model that build() makes, known without making it.
  virtual int64_t num_segments() const = 0;
  /// Everything that build() depends on: ranks compare it.
  virtual std::vector<ModelFact> facts() const = 0;
  /// For the log: "12 layers, 12 heads, width 768".
  virtual std::string summary() const = 0;
  virtual TensorNames tensor_names() const { return {}; }
  /// The config.json with which Hugging Face loads such a model, of weights of that torch dtype ("float32"); empty: it
  /// has none.
  virtual std::string hugging_face_config(const std::string& /*torch_dtype*/) const { return ""; }
};

/// The architectures of one kind; architectures.cc lists them. All functions:
/// [any-thread].
class ArchitectureFamily {
 public:
  virtual ~ArchitectureFamily() = default;

  /// The sizes that `--model` knows by name.
  virtual std::vector<std::string> names() const = 0;
  /// How names that hold the dimensions look: "mlp:INPUTS,HIDDEN,...,CLASSES"; empty: there are none.
  virtual std::string pattern() const { return ""; }
  /// What --help says of them: "gpt2, gpt2_medium, ... (random weights)".
  virtual std::string help() const = 0;
  /// The architecture of that name; null when the name is not of this family. Throws INVALID_ARGUMENT for one that is,
  /// and says nothing that can be built.
  virtual std::shared_ptr<const Architecture> by_name(std::string_view name) const = 0;
  /// The model of the Hugging Face hub with the weights of that size; empty: there is none.
  virtual std::string hub_id(std::string_view /*name*/) const { return ""; }

  /// The `model_type` of a config.json of this family; empty: it reads no folders.
  virtual std::string_view model_type() const { return ""; }
  /// Reads a file of that type; adds a sentence to `warnings` for what it asks of training and is not
  /// done. Throws INVALID_ARGUMENT
  /// or UNSUPPORTED, naming key and file.
  virtual std::shared_ptr<const Architecture> from_config(const ConfigFile&,
                                                          std::vector<std::string>& /*warnings*/) const {
    return nullptr;
  }
  /// How files of other programs with weights of this family begin: they are not read, and not passed over.
  virtual std::vector<std::string_view> foreign_weights() const { return {}; }
};

}  // namespace tessera::host
