// A chain of linear layers, an activation after each but the last, and the cross-entropy of the last one's logits:
//
//     features --- layers.0 --- layers.1 --- ... --- loss
//               layers.0.out              logits     labels
//
// A layer is a unit, so that storage is sharded by layer, and a block, so that it may be computed again; a pipeline may
// cut after any layer. Its activation and bias are in the product's segment, since nothing has to be summed between
// them. For the same reason no axis can split the widths: a layer that contracts a split width would add its bias once
// for each part. So the dims have no names.
//
// Weights are [in, out]. They start normal with deviation sqrt(2 / in) before a hidden activation, which halves the
// variance (He et al. 2015, "Delving deep into rectifiers", eq. 10), and sqrt(1 / in) in the last layer, after which
// there is none; biases start at 0.

#include "model/mlp/mlp.h"

#include <charconv>
#include <cmath>
#include <string>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr int64_t kMaxWidth = 1 << 24;
constexpr std::size_t kMaxLayers = 10'000;

constexpr uint32_t kNoName = 0;

InitialRule initial_weights(int64_t in, bool is_last) {
  const float gain = is_last ? 1.0f : 2.0f;
  return {0.0f, std::sqrt(gain / static_cast<float>(in))};
}

template <class... Parts>
[[noreturn]] void refuse(std::string_view name, const Parts&... parts) {
  throw Error(TSR_E_INVALID_ARGUMENT, concat("--model ", name, ": ", parts...));
}

int64_t parse_width(std::string_view name, std::string_view text) {
  int64_t width = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), width);
  if (error != std::errc() || end != text.data() + text.size() || width < 1 || width > kMaxWidth)
    refuse(name, "'", text, "' is not a width; give whole numbers from 1 to ", kMaxWidth,
           ", INPUTS,HIDDEN,...,CLASSES: mlp:784,256,10");
  return width;
}

std::vector<int64_t> parse_widths(std::string_view name, std::string_view text) {
  std::vector<int64_t> widths;
  for (bool is_more = true; is_more;) {
    const std::size_t comma = text.find(',');
    widths.push_back(parse_width(name, text.substr(0, comma)));
    is_more = comma != text.npos;
    if (is_more) text.remove_prefix(comma + 1);
  }
  if (widths.size() < 2) refuse(name, "one width makes no layer; give INPUTS,HIDDEN,...,CLASSES: mlp:784,256,10");
  if (widths.size() > kMaxLayers + 1) refuse(name, "it has ", widths.size() - 1, " layers; give at most ", kMaxLayers);
  if (widths.back() < 2)
    refuse(name, "a model of one class always predicts it; the last width is the number of classes, at least 2");
  return widths;
}

int parse_activation(std::string_view name, std::string_view text) {
  if (text == "relu") return TSR_ACTIVATION_RELU;
  if (text == "gelu") return TSR_ACTIVATION_GELU_TANH;
  refuse(name, "'", text, "' is not an activation; give relu or gelu, or leave it out for relu");
}

}  // namespace

Model make_mlp(const MlpConfig& config, const BatchShape& shape) {
  ModelBuilder builder(shape);
  const auto width = [&](std::size_t i) { return make_dim(kNoName, config.widths[i]); };
  int x = builder.input("features", shape.dtype, {width(0)});
  const int labels = builder.input("labels", TSR_I32);
  const auto num_layers = static_cast<std::size_t>(config.num_layers());
  for (std::size_t i = 0; i < num_layers; ++i) {
    const std::string name = "layers." + std::to_string(i);
    const bool is_last = i + 1 == num_layers;
    builder.unit(name);
    builder.begin_block(static_cast<int>(i));
    const int weight =
        builder.parameter(name + ".weight", {width(i), width(i + 1)}, initial_weights(config.widths[i], is_last));
    const int bias = builder.parameter(name + ".bias", {width(i + 1)}, {});
    const int activation = is_last ? TSR_ACTIVATION_NONE : config.activation;
    x = builder.apply({name,
                       TSR_OP_LINEAR,
                       {weight, bias},
                       {x},
                       {{TSR_ATTR_ACTIVATION, activation}},
                       {is_last ? "logits" : name + ".out"}})[0];
  }
  builder.begin_block(-1);
  builder.apply({"loss", TSR_OP_CROSS_ENTROPY, {}, {x, labels}, {{TSR_ATTR_SCALE, shape.loss_scale}}});
  return builder.finish();
}

MlpConfig parse_mlp(std::string_view name) {
  std::string_view text = name.substr(std::min(name.find(':'), name.size() - 1) + 1);
  MlpConfig config;
  if (const std::size_t colon = text.find(':'); colon != text.npos) {
    config.activation = parse_activation(name, text.substr(colon + 1));
    text = text.substr(0, colon);
  }
  config.widths = parse_widths(name, text);
  return config;
}

}  // namespace tessera::host
