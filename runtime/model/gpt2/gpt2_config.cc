// Reads config.json. A key that changes the arithmetic and is not supported is refused, by name: a model that is
// trained with other attention scores than it was made with gives a loss that looks fine and is wrong. Dropout is not
// applied and is reported; keys that are not about the arithmetic are ignored.

#include "model/gpt2/gpt2_config.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/concat.h"

namespace tessera::host {
namespace {

// Far beyond any model that was trained; below, a program of the step is made of what is there.
constexpr int64_t kMaxLayers = 10'000;
constexpr int64_t kMaxExtent = 1 << 24;

constexpr std::array<const char*, 3> kDropouts = {"resid_pdrop", "embd_pdrop", "attn_pdrop"};
constexpr int64_t kEndOfText = 50256;  // of GPT-2's own tokenizer

struct NamedSize {
  const char* name;
  int64_t num_layers, num_heads, embed;
};
constexpr std::array<NamedSize, 4> kSizes{
    {{"gpt2", 12, 12, 768}, {"gpt2_medium", 24, 16, 1024}, {"gpt2_large", 36, 20, 1280}, {"gpt2_xl", 48, 25, 1600}}};

void refuse_other_arithmetic(const ConfigFile& file) {
  const auto require = [&](const char* key, bool needed, const char* meaning) {
    if (file.boolean(key, needed) == needed) return;
    file.refuse(TSR_E_UNSUPPORTED, key, "is ", needed ? "false" : "true", ", which is not supported: ", meaning);
  };
  require("tie_word_embeddings", true, "the head uses the token embedding's weights, so it must be true or absent");
  require("scale_attn_weights", true, "attention scores are divided by the square root of the head's width");
  require("scale_attn_by_inverse_layer_idx", false, "attention scores are scaled alike in all layers");
  require("reorder_and_upcast_attn", false, "attention runs in the precision that --dtype gives");
  require("add_cross_attention", false, "a GPT-2 has no encoder to attend to");
}

int read_activation(const ConfigFile& file) {
  const std::string name = file.text("activation_function", "gelu_new");
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return TSR_ACTIVATION_GELU_TANH;
  if (name == "relu") return TSR_ACTIVATION_RELU;
  file.refuse(TSR_E_UNSUPPORTED, "activation_function", "is \"", name,
              "\"; gelu_new, gelu_pytorch_tanh and relu are supported");
}

double read_epsilon(const ConfigFile& file) {
  const double epsilon = file.number("layer_norm_epsilon", 1e-5);
  if (!(epsilon > 0) || !(epsilon < 1)) {
    file.refuse(TSR_E_INVALID_ARGUMENT, "layer_norm_epsilon", "is ", epsilon,
                "; it must be more than 0 and less than 1");
  }
  return epsilon;
}

double read_initializer_range(const ConfigFile& file) {
  const double deviation = file.number("initializer_range", Gpt2Config().initializer_range);
  if (!(deviation > 0) || !(deviation <= 1))
    file.refuse(TSR_E_INVALID_ARGUMENT, "initializer_range", "is ", deviation,
                "; it must be more than 0 and at most 1");
  return deviation;
}

void read_dropouts(const ConfigFile& file, Gpt2ConfigFile& read) {
  for (size_t i = 0; i < kDropouts.size(); ++i) {
    const double probability = file.number(kDropouts[i], 0);
    read.config.dropouts[i] = probability;
    if (probability != 0) read.dropouts.push_back(concat(kDropouts[i], " ", probability));
  }
}

}  // namespace

std::vector<std::string> gpt2_names() {
  std::vector<std::string> names;
  names.reserve(kSizes.size());
  for (const NamedSize& named : kSizes)
    names.emplace_back(named.name);
  return names;
}

std::optional<Gpt2Config> gpt2_config_by_name(std::string_view name) {
  const auto* named =
      std::find_if(kSizes.begin(), kSizes.end(), [name](const NamedSize& size) { return name == size.name; });
  if (named == kSizes.end()) return std::nullopt;
  return Gpt2Config{.num_layers = named->num_layers,
                    .num_heads = named->num_heads,
                    .embed = named->embed,
                    .vocab = 50257,
                    .positions = 1024,
                    .ffn = 4 * named->embed};
}

Gpt2ConfigFile read_gpt2_config(const ConfigFile& file) {
  refuse_other_arithmetic(file);
  Gpt2ConfigFile read;
  Gpt2Config& config = read.config;
  config.num_layers = file.extent("n_layer", kMaxLayers);
  config.num_heads = file.extent("n_head", kMaxExtent);
  config.embed = file.extent("n_embd", kMaxExtent);
  config.vocab = file.extent("vocab_size", kMaxExtent);
  config.positions = file.extent("n_positions", kMaxExtent);
  config.ffn = file.has("n_inner") ? file.extent("n_inner", kMaxExtent) : 4 * config.embed;
  config.epsilon = read_epsilon(file);
  config.activation = read_activation(file);
  config.initializer_range = read_initializer_range(file);
  config.bos_token = file.tokens("bos_token_id", config.vocab);
  config.eos_token = file.tokens("eos_token_id", config.vocab);
  if (config.embed % config.num_heads != 0) {
    file.refuse(TSR_E_INVALID_ARGUMENT, "n_embd", "is ", config.embed, ", which ", config.num_heads,
                " heads (\"n_head\") do not divide");
  }
  read_dropouts(file, read);
  return read;
}

std::string write_gpt2_config(const Gpt2Config& config, const std::string& torch_dtype) {
  nlohmann::ordered_json json = {
      {"architectures", {"GPT2LMHeadModel"}},
      {"model_type", "gpt2"},
      {"torch_dtype", torch_dtype},
      {"n_layer", config.num_layers},
      {"n_head", config.num_heads},
      {"n_embd", config.embed},
      {"n_inner", config.ffn},
      {"n_positions", config.positions},
      {"n_ctx", config.positions},
      {"vocab_size", config.vocab},
      {"activation_function", config.activation == TSR_ACTIVATION_RELU ? "relu" : "gelu_new"},
      {"layer_norm_epsilon", config.epsilon},
      {"initializer_range", config.initializer_range},
      {"tie_word_embeddings", true}};
  for (size_t i = 0; i < kDropouts.size(); ++i)
    json[kDropouts[i]] = config.dropouts[i];
  // Without one that of GPT-2's own vocabulary: transformers' default, which would be beyond a smaller one.
  const std::string usual = config.vocab > kEndOfText ? std::to_string(kEndOfText) : "null";
  for (const auto& [key, token] : {std::pair("bos_token_id", config.bos_token), {"eos_token_id", config.eos_token}})
    json[key] = nlohmann::ordered_json::parse(token.empty() ? usual : token);
  return json.dump(2) + "\n";
}

}  // namespace tessera::host
