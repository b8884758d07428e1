// Reads config.json. A key that changes the arithmetic and is not supported is refused, by name: a model that is
// trained with other attention scores than it was made with gives a loss that looks fine and is wrong. Dropout is not
// applied and is reported; keys that are not about the arithmetic are ignored.

#include "model/gpt2_config.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/concat.h"
#include "base/read_only_file.h"
#include "base/strict_json.h"
#include "config/did_you_mean.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxFileBytes = 16 << 20;
constexpr int kMaxDepth = 16;

// Far beyond any model that was trained; below, a program of the step is made of what is there.
constexpr int64_t kMaxLayers = 10'000;
constexpr int64_t kMaxExtent = 1 << 24;

struct NamedSize {
  const char* name;
  int64_t num_layers, num_heads, embed;
};
constexpr std::array<NamedSize, 4> kSizes{
    {{"gpt2", 12, 12, 768}, {"gpt2_medium", 24, 16, 1024}, {"gpt2_large", 36, 20, 1280}, {"gpt2_xl", 48, 25, 1600}}};

// Typed access to the keys of one file. A key that is null counts as absent, as in Hugging Face's own reader.
class Keys {
 public:
  explicit Keys(const std::string& path)
      : path_(path), object_(parse_strict_json(read_text_file(path, kMaxFileBytes), path, kMaxDepth)) {}

  const json* find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  template <class... Parts>
  [[noreturn]] void refuse(tsr_status code, const char* key, const Parts&... parts) const {
    throw Error(code, printable(concat(path_, ": \"", key, "\" ", parts...)));  // a zero byte would end it
  }

  int64_t extent(const char* key, int64_t max = kMaxExtent) const {
    const json* value = find(key);
    if (!value) refuse(TSR_E_INVALID_ARGUMENT, key, "is missing");
    if (!value->is_number_unsigned() || value->get<uint64_t>() < 1 ||
        value->get<uint64_t>() > static_cast<uint64_t>(max)) {
      refuse(TSR_E_INVALID_ARGUMENT, key, "is ", value->dump(), ", not a whole number from 1 to ", max);
    }
    return value->get<int64_t>();
  }

  double number(const char* key, double absent) const {
    const json* value = find(key);
    if (!value) return absent;
    if (!value->is_number()) refuse(TSR_E_INVALID_ARGUMENT, key, "is ", value->dump(), ", not a number");
    return value->get<double>();
  }

  bool boolean(const char* key, bool absent) const {
    const json* value = find(key);
    if (!value) return absent;
    if (!value->is_boolean()) refuse(TSR_E_INVALID_ARGUMENT, key, "is ", value->dump(), ", not true or false");
    return value->get<bool>();
  }

  std::string text(const char* key, const char* absent) const {
    const json* value = find(key);
    if (!value) return absent;
    if (!value->is_string()) refuse(TSR_E_INVALID_ARGUMENT, key, "is ", value->dump(), ", not a string");
    return value->get<std::string>();
  }

 private:
  std::string path_;
  json object_;
};

void check_model_type(const Keys& keys) {
  if (!keys.find("model_type")) keys.refuse(TSR_E_INVALID_ARGUMENT, "model_type", "is missing; \"gpt2\" is supported");
  const std::string type = keys.text("model_type", "");
  if (type != "gpt2") {
    keys.refuse(TSR_E_UNSUPPORTED, "model_type", "is \"", type, "\"; only \"gpt2\" is supported");
  }
}

void refuse_other_arithmetic(const Keys& keys) {
  const auto require = [&](const char* key, bool needed, const char* meaning) {
    if (keys.boolean(key, needed) == needed) return;
    keys.refuse(TSR_E_UNSUPPORTED, key, "is ", needed ? "false" : "true", ", which is not supported: ", meaning);
  };
  require("tie_word_embeddings", true, "the head uses the token embedding's weights, so it must be true or absent");
  require("scale_attn_weights", true, "attention scores are divided by the square root of the head's width");
  require("scale_attn_by_inverse_layer_idx", false, "attention scores are scaled alike in all layers");
  require("reorder_and_upcast_attn", false, "attention runs in the precision that --dtype gives");
  require("add_cross_attention", false, "there is no encoder to attend to");
}

int read_activation(const Keys& keys) {
  const std::string name = keys.text("activation_function", "gelu_new");
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return TSR_ACTIVATION_GELU_TANH;
  if (name == "relu") return TSR_ACTIVATION_RELU;
  keys.refuse(TSR_E_UNSUPPORTED, "activation_function", "is \"", name,
              "\"; gelu_new, gelu_pytorch_tanh and relu are supported");
}

double read_epsilon(const Keys& keys) {
  const double epsilon = keys.number("layer_norm_epsilon", 1e-5);
  if (!(epsilon > 0) || !(epsilon < 1)) {
    keys.refuse(TSR_E_INVALID_ARGUMENT, "layer_norm_epsilon", "is ", epsilon,
                "; it must be more than 0 and less than 1");
  }
  return epsilon;
}

std::vector<std::string> read_dropouts(const Keys& keys) {
  std::vector<std::string> dropouts;
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) {
    const double probability = keys.number(key, 0);
    if (probability != 0) dropouts.push_back(concat(key, " ", probability));
  }
  return dropouts;
}

}  // namespace

std::vector<std::string> gpt2_names() {
  std::vector<std::string> names;
  for (const NamedSize& named : kSizes)
    names.emplace_back(named.name);
  return names;
}

Gpt2Config gpt2_config_by_name(std::string_view name) {
  const auto* named =
      std::find_if(kSizes.begin(), kSizes.end(), [name](const NamedSize& size) { return name == size.name; });
  if (named != kSizes.end()) {
    return {.num_layers = named->num_layers,
            .num_heads = named->num_heads,
            .embed = named->embed,
            .vocab = 50257,
            .positions = 1024,
            .ffn = 4 * named->embed};
  }
  const std::vector<std::string> names = gpt2_names();
  const std::string close = nearest(name, names);
  throw Error(TSR_E_INVALID_ARGUMENT,
              concat("--model ", name, ": there is neither a GPT-2 nor a folder of that name",
                     close.empty() ? "; give " : "; did you mean " + close + "? Give ", names[0], ", ", names[1], ", ",
                     names[2], ", ", names[3], ", or a folder with a config.json"));
}

Gpt2ConfigFile read_gpt2_config(const std::string& path) {
  const Keys keys(path);
  check_model_type(keys);
  refuse_other_arithmetic(keys);
  Gpt2ConfigFile file;
  Gpt2Config& config = file.config;
  config.num_layers = keys.extent("n_layer", kMaxLayers);
  config.num_heads = keys.extent("n_head");
  config.embed = keys.extent("n_embd");
  config.vocab = keys.extent("vocab_size");
  config.positions = keys.extent("n_positions");
  config.ffn = keys.find("n_inner") ? keys.extent("n_inner") : 4 * config.embed;
  config.epsilon = read_epsilon(keys);
  config.activation = read_activation(keys);
  if (config.embed % config.num_heads != 0) {
    keys.refuse(TSR_E_INVALID_ARGUMENT, "n_embd", "is ", config.embed, ", which ", config.num_heads,
                " heads (\"n_head\") do not divide");
  }
  file.dropouts = read_dropouts(keys);
  return file;
}

}  // namespace tessera::host
