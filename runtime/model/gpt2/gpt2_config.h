// The dimensions of a GPT-2 model, by name or from a Hugging Face config.json.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/config_file.h"
#include "tessera/device.h"

namespace tessera::host {

/// The defaults are those of Hugging Face's GPT2Config where it has them. The embedding is always tied to the head.
struct Gpt2Config {
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t embed = 0;                          ///< width of the residual stream, a multiple of num_heads
  int64_t vocab = 0;                          ///< number of tokens
  int64_t positions = 0;                      ///< longest sequence
  int64_t ffn = 0;                            ///< width of the MLP's hidden layer
  double epsilon = 1e-5;                      ///< of the layer norms
  int activation = TSR_ACTIVATION_GELU_TANH;  ///< of the hidden layer
  double initializer_range = 0.02;            ///< standard deviation of initial weights
  /// Tokens that begin and end texts, as JSON, for those who generate; empty: GPT-2's, if the vocabulary has it.
  std::string bos_token = {}, eos_token = {};
  /// Probabilities of "resid_pdrop", "embd_pdrop" and "attn_pdrop", for those who train it elsewhere: no dropout is
  /// applied here.
  std::array<double, 3> dropouts = {};

  bool operator==(const Gpt2Config&) const = default;
};

/// "gpt2", "gpt2_medium", "gpt2_large", "gpt2_xl".
std::vector<std::string> gpt2_names();

/// One of the four sizes; nothing for another name.
std::optional<Gpt2Config> gpt2_config_by_name(std::string_view name);

/// What a config.json says.
struct Gpt2ConfigFile {
  Gpt2Config config;
  std::vector<std::string> dropouts;  ///< "resid_pdrop 0.1", ...: the non-zero ones, which are not applied
};

/// The text of a config.json that transformers' GPT2LMHeadModel loads, and read_gpt2_config reads.
std::string write_gpt2_config(const Gpt2Config& config, const std::string& torch_dtype);

/// Reads a Hugging Face config.json. Throws INVALID_ARGUMENT or UNSUPPORTED, naming the key and the file, for a missing
/// or wrong key (no model has more than 10,000 layers) and for a model that is not computed as GPT-2 is here.
Gpt2ConfigFile read_gpt2_config(const ConfigFile& file);

}  // namespace tessera::host
