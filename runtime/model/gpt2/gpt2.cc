// GPT-2 as segments. A segment ends where a collective may have to be inserted and nowhere else (decision 0001);
// elementwise work is fused into the product or the norm next to it. One block, with the residual stream x from left to
// right:
//
//     x --- ln_1 --- qkv --- attention --- proj --- add_ln_2 --- fc_gelu --- fc_proj --- add --- next x
//       norm_1    qkv    attended   projected   mid, norm_2   hidden      ffn_out
//
// Why just there:
// - proj and fc_proj have no bias. Their outputs contract a dim that tensor parallelism splits (heads, ffn) and are
//   addends until they are summed; bias and residual, which must be added once, are in add_ln_2 and add.
// - qkv and fc_gelu begin after a norm, so the gradients of their inputs can be summed before the norm's backward.
// - Residual values are new buffers, never in place: the backward reads them.
//
// ffn_out is an addend of the next x, and wte.out of the first one: their gradients are those of the sums (infer_op.h).
// `projected` has a gradient of its own, since the residual's is added to after backward(proj).
//
// The embedding is tied: wte is used by the first and the last segment, and is a unit of its own for that reason.
//
// Initial values are those of Radford et al. 2019: the weights of the two projections into the residual stream are
// divided by sqrt(2 layers), the number of addends of the stream, so that its variance does not grow with depth.

#include "model/gpt2/gpt2.h"

#include <cmath>

#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr InitialRule kZero = {0.0f, 0.0f}, kOne = {1.0f, 0.0f};

/// The parameters of a block, and the ops that use them.
class Gpt2Builder {
 public:
  Gpt2Builder(const Gpt2Config& config, const BatchShape& shape)
      : config_(config),
        shape_(shape),
        builder_(shape),
        weight_{0.0f, static_cast<float>(config.initializer_range)},
        residual_{0.0f, weight_.standard_deviation / std::sqrt(2.0f * static_cast<float>(config.num_layers))} {}

  Model build() {
    const int tokens = builder_.input("tokens", TSR_I32);
    const int targets = builder_.input("targets", TSR_I32);
    builder_.unit("wte");
    const int wte = builder_.parameter("wte.weight", {make_dim(TSR_DIM_VOCAB, config_.vocab), embed_}, weight_);
    builder_.unit("wpe");
    const int wpe = builder_.parameter("wpe.weight", {make_dim(TSR_DIM_POSITIONS, config_.positions), embed_}, weight_);
    const int embedded = apply({"wte", TSR_OP_TOKEN_EMBEDDING, {wte}, {tokens}, {}, {"wte.out"}});
    int x = apply({"wpe", TSR_OP_POSITION_EMBEDDING, {wpe}, {embedded}, {}, {"h.0.x"}});
    for (int b = 0; b < config_.num_layers; ++b)
      x = block(b, x);
    builder_.begin_block(-1);
    builder_.unit("ln_f");
    const auto norm = norm_parameters("ln_f");
    const int normed = apply({"ln_f", TSR_OP_LAYER_NORM, norm, {x}, epsilon(), {"ln_f.out"}});
    builder_.apply({"loss", TSR_OP_LOSS, {wte}, {normed, targets}, {{TSR_ATTR_SCALE, shape_.loss_scale}}});
    return builder_.finish();
  }

 private:
  using Attributes = std::vector<std::pair<int, double>>;

  Attributes epsilon() const { return {{TSR_ATTR_EPSILON, config_.epsilon}}; }
  int apply(const OpCall& call) { return builder_.apply(call)[0]; }

  std::vector<int> norm_parameters(const std::string& norm) {
    const int weight = builder_.parameter(norm + ".weight", {embed_}, kOne);
    return {weight, builder_.parameter(norm + ".bias", {embed_}, kZero)};
  }
  /// Conv1D's weight [in, out] and bias.
  std::vector<int> linear_parameters(const std::string& name, tsr_dim in, tsr_dim out, InitialRule initial) {
    const int weight = builder_.parameter(name + ".weight", {in, out}, initial);
    return {weight, builder_.parameter(name + ".bias", {out}, kZero)};
  }

  int block(int b, int x) {
    const std::string prefix = "h." + std::to_string(b), next = "h." + std::to_string(b + 1) + ".x";
    const auto named = [&](const char* text) { return prefix + "." + text; };
    builder_.unit(prefix);
    builder_.begin_block(b);
    const int64_t head_dim = config_.embed / config_.num_heads;
    const tsr_dim ffn = make_dim(TSR_DIM_FFN, config_.ffn);
    // q, k and v are three blocks of one matrix; a split cuts each of them, at multiples of a head.
    const tsr_dim qkv3 = make_dim(TSR_DIM_HEADS, 3 * config_.embed, 3, head_dim);
    const tsr_dim heads = make_dim(TSR_DIM_HEADS, config_.embed, 1, head_dim);

    const auto ln_1 = norm_parameters(named("ln_1"));
    const auto attn = linear_parameters(named("attn.c_attn"), embed_, qkv3, weight_);
    const auto proj = linear_parameters(named("attn.c_proj"), heads, embed_, residual_);
    const auto ln_2 = norm_parameters(named("ln_2"));
    const auto fc = linear_parameters(named("mlp.c_fc"), embed_, ffn, weight_);
    const auto fc_proj = linear_parameters(named("mlp.c_proj"), ffn, embed_, residual_);

    const int norm_1 = apply({named("ln_1"), TSR_OP_LAYER_NORM, ln_1, {x}, epsilon(), {named("norm_1")}});
    const int qkv = apply({named("qkv"), TSR_OP_LINEAR, attn, {norm_1}, {}, {named("qkv")}});
    const int attended = apply({named("attention"), TSR_OP_ATTENTION, {}, {qkv}, {}, {named("attended")}});
    const int projected = apply({named("proj"), TSR_OP_LINEAR, {proj[0]}, {attended}, {}, {named("projected")}});
    const auto normed = builder_.apply({named("add_ln_2"),
                                        TSR_OP_ADD_LAYER_NORM,
                                        {proj[1], ln_2[0], ln_2[1]},
                                        {x, projected},
                                        epsilon(),
                                        {named("mid"), named("norm_2")}});
    const Attributes activation = {{TSR_ATTR_ACTIVATION, config_.activation}};
    const int hidden = apply({named("fc_gelu"), TSR_OP_LINEAR, fc, {normed[1]}, activation, {named("hidden")}});
    const int ffn_out = apply({named("fc_proj"), TSR_OP_LINEAR, {fc_proj[0]}, {hidden}, {}, {named("ffn_out")}});
    return apply({named("add"), TSR_OP_ADD, {fc_proj[1]}, {normed[0], ffn_out}, {}, {next}});
  }

  const Gpt2Config& config_;
  const BatchShape& shape_;
  ModelBuilder builder_;
  const tsr_dim embed_ = make_dim(TSR_DIM_EMBED, config_.embed);
  const InitialRule weight_, residual_;  // the latter of the projections into the residual stream
};

}  // namespace

Model make_gpt2(const Gpt2Config& config, const BatchShape& shape) {
  if (shape.batch < 1 || shape.seq < 1 || shape.seq > config.positions)
    throw Error(TSR_E_INVALID_ARGUMENT, "batch size " + std::to_string(shape.batch) + " and sequence length " +
                                            std::to_string(shape.seq) +
                                            " do not fit: both must be at least 1, and the model has " +
                                            std::to_string(config.positions) + " positions");
  return Gpt2Builder(config, shape).build();
}

}  // namespace tessera::host
