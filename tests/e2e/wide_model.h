// A model of which one tensor is more than a piece or a block of a checkpoint.
#pragma once

#include <string>
#include <vector>

#include "e2e/cli.h"

namespace tessera::testing {

/// Writes a model whose embedding has 4.9 MiB: two pieces of 4 MiB, five blocks of 1 MiB, the last of each cut short.
/// All else is small. Returns its folder.
inline std::string write_wide_model(const TempFolder& folder) {
  folder.write("model/config.json", R"({"model_type": "gpt2", "activation_function": "gelu_new", "n_layer": 1,
                                        "n_head": 2, "layer_norm_epsilon": 1e-05, "tie_word_embeddings": true,
                                        "vocab_size": 20000, "n_positions": 8, "n_embd": 64})");
  return folder.path("model");
}

/// `tessera train` on it.
inline std::vector<std::string> train_wide_model(const std::string& model, std::vector<std::string> more) {
  std::vector<std::string> all = {
      "train",          "--model",     model,         "--data",         golden("/tokens.bin"),
      "--batch-size=1", "--seq-len=8", "--threads=1", "--optimizer=sgd"};
  all.insert(all.end(), more.begin(), more.end());
  return tessera(all);
}

}  // namespace tessera::testing
