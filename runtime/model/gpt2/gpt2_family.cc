// GPT-2 as the host sees it. Its files come from several programs: names with and without the prefix `transformer.`, a
// head that repeats the token embedding, and, from old versions of transformers, the causal mask as if it were a
// weight.

#include "model/gpt2/gpt2_family.h"

#include <algorithm>

#include "base/concat.h"
#include "config/text_values.h"
#include "model/gpt2/gpt2.h"
#include "model/gpt2/gpt2_config.h"

namespace tessera::host {
namespace {

// "h.<digits>.attn.bias" and "h.<digits>.attn.masked_bias".
bool is_mask_buffer(std::string_view name) {
  if (!name.starts_with("h.")) return false;
  const std::size_t end = name.find_first_not_of("0123456789", 2);
  if (end == 2 || end == std::string_view::npos) return false;
  const std::string_view rest = name.substr(end);
  return rest == ".attn.bias" || rest == ".attn.masked_bias";
}

class Gpt2 final : public Architecture {
 public:
  explicit Gpt2(const Gpt2Config& config) : config_(config) {}

  Model build(const BatchShape& shape) const override { return make_gpt2(config_, shape); }
  ModelInputs inputs() const override { return TokenInputs{config_.vocab, config_.positions}; }
  int64_t num_layers() const override { return config_.num_layers; }
  int64_t num_segments() const override { return 8 * config_.num_layers + 4; }  // see gpt2.h
  TensorNames tensor_names() const override { return gpt2_tensor_names(); }
  std::string hugging_face_config(const std::string& torch_dtype) const override {
    return write_gpt2_config(config_, torch_dtype);
  }

  std::vector<ModelFact> facts() const override {
    return {{"layers of the model", std::to_string(config_.num_layers)},
            {"heads of the model", std::to_string(config_.num_heads)},
            {"width of the model", std::to_string(config_.embed)},
            {"width of the model's MLP", std::to_string(config_.ffn)},
            {"vocabulary of the model", std::to_string(config_.vocab)},
            {"positions of the model", std::to_string(config_.positions)},
            {"epsilon of the model", shortest(config_.epsilon)},
            {"activation of the model", config_.activation == TSR_ACTIVATION_RELU ? "relu" : "gelu_new"}};
  }
  std::string summary() const override {
    return concat(config_.num_layers, " layers, ", config_.num_heads, " heads, width ", config_.embed);
  }

 private:
  Gpt2Config config_;
};

class Gpt2Family final : public ArchitectureFamily {
 public:
  std::vector<std::string> names() const override { return gpt2_names(); }
  std::string help() const override {
    std::string text;
    for (const std::string& name : gpt2_names())
      text += (text.empty() ? "" : ", ") + name;
    return text + " (random weights)";
  }

  std::shared_ptr<const Architecture> by_name(std::string_view name) const override {
    const auto config = gpt2_config_by_name(name);
    return config ? std::make_shared<Gpt2>(*config) : nullptr;
  }
  std::string hub_id(std::string_view name) const override {
    std::string there(name);
    std::ranges::replace(there, '_', '-');  // gpt2_medium is gpt2-medium there
    return "openai-community/" + there;
  }

  std::string_view model_type() const override { return "gpt2"; }
  std::shared_ptr<const Architecture> from_config(const ConfigFile& file,
                                                  std::vector<std::string>& warnings) const override {
    const Gpt2ConfigFile read = read_gpt2_config(file);
    std::string dropouts;
    for (const std::string& dropout : read.dropouts)
      dropouts += (dropouts.empty() ? "" : ", ") + dropout;
    if (!dropouts.empty()) warnings.push_back(concat("dropout is not applied: ", dropouts, " in ", file.path()));
    return std::make_shared<Gpt2>(read.config);
  }
  std::vector<std::string_view> foreign_weights() const override { return {"gpt2_"}; }  // llm.c: gpt2_124M.bin
};

}  // namespace

const ArchitectureFamily& gpt2_family() {
  static const Gpt2Family family;
  return family;
}

TensorNames gpt2_tensor_names() {
  return {"transformer.", "lm_head.weight", "wte.weight", is_mask_buffer};
}

}  // namespace tessera::host
