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
// `gradient_of` says that a value's gradient is another value's: ffn_out is an addend of the next x, and so is wte.out
// of the first one. `projected` has a gradient of its own, since the residual's is added to after backward(proj).
//
// The embedding is tied: wte is used by the first and the last segment, and is a unit of its own for that reason.

#include "model/gpt2.h"

#include "tessera/error.hpp"

namespace tessera::host {
namespace {

tsr_dim dim(uint32_t name, int64_t extent, uint32_t blocks = 1, int64_t granule = 1) {
  return {name, blocks, extent, granule};
}

uint64_t product(const std::vector<tsr_dim>& dims) {
  uint64_t n = 1;
  for (const tsr_dim& d : dims)
    n *= static_cast<uint64_t>(d.extent);
  return n;
}

bool is_row_wise(uint32_t op) {
  return op == TSR_OP_POSITION_EMBEDDING || op == TSR_OP_LAYER_NORM || op == TSR_OP_ADD_LAYER_NORM || op == TSR_OP_ADD;
}

/// Appends to a model in forward order. Names of dims: B batch, T seq, C embed, F ffn, V vocab, H heads, D head_dim.
class Gpt2Builder {
 public:
  Gpt2Builder(const Gpt2Config& config, const BatchShape& shape) : config_(config), shape_(shape) {
    model_.batch = shape.batch;
    model_.seq = shape.seq;
  }

  Model build() {
    const int tokens = value("tokens", {}, TSR_VALUE_TOKENS, TSR_I32);
    const int targets = value("targets", {}, TSR_VALUE_TARGETS, TSR_I32);
    const tsr_dim embed = dim(TSR_DIM_EMBED, config_.embed);
    const int wte = parameter(unit("wte"), "wte.weight", {dim(TSR_DIM_VOCAB, config_.vocab), embed});
    const int wpe = parameter(unit("wpe"), "wpe.weight", {dim(TSR_DIM_POSITIONS, config_.positions), embed});

    const int embedded = activation("wte.out", embed);
    int x = activation("h.0.x", embed);
    // wpe adds to it: both gradients are one.
    model_.values[embedded].gradient_of = x;
    segment("wte", TSR_OP_TOKEN_EMBEDDING, {wte}, {tokens}, {embedded}, {{TSR_DIM_VOCAB, TSR_REDUCE_SUM}});
    segment("wpe", TSR_OP_POSITION_EMBEDDING, {wpe}, {embedded}, {x});
    for (block_ = 0; block_ < config_.num_layers; ++block_)
      x = block(x);
    block_ = -1;

    const int final_unit = unit("ln_f");
    const int weight = parameter(final_unit, "ln_f.weight", {embed});
    const int bias = parameter(final_unit, "ln_f.bias", {embed});
    const int normed = activation("ln_f.out", embed);
    segment("ln_f", TSR_OP_LAYER_NORM, {weight, bias}, {x}, {normed});
    segment("loss", TSR_OP_LOSS, {wte}, {normed, targets}, {}, {{TSR_DIM_EMBED, TSR_REDUCE_SUM}});
    lay_out_units(model_);
    return std::move(model_);
  }

 private:
  int unit(const std::string& name) {
    model_.units.push_back({name, 0, {}});
    return static_cast<int>(model_.units.size()) - 1;
  }

  int parameter(int unit, const std::string& name, std::vector<tsr_dim> dims) {
    const int index = static_cast<int>(model_.parameters.size());
    const uint64_t num_elements = product(dims);
    model_.parameters.push_back({name, std::move(dims), unit, num_elements, 0, true});
    model_.units[unit].parameters.push_back(index);
    return index;
  }

  int value(const std::string& name, const std::vector<tsr_dim>& columns, uint32_t kind, tsr_dtype dtype) {
    std::vector<tsr_dim> dims = {dim(TSR_DIM_BATCH, shape_.batch), dim(TSR_DIM_SEQ, shape_.seq)};
    dims.insert(dims.end(), columns.begin(), columns.end());
    const uint64_t num_elements = product(dims);
    model_.values.push_back({name, std::move(dims), kind, dtype, -1, num_elements});
    return static_cast<int>(model_.values.size()) - 1;
  }
  int activation(const std::string& name, tsr_dim columns) {
    return value(name, {columns}, TSR_VALUE_ACTIVATION, shape_.dtype);
  }

  Segment& segment(const std::string& name, uint32_t kind, std::vector<int> parameters, std::vector<int> inputs,
                   std::vector<int> outputs, std::vector<tsr_contraction> contractions = {}) {
    tsr_op op{};
    op.struct_size = sizeof op;
    op.kind = kind;
    op.dtype = shape_.dtype;
    // Gradients of parameters leave the product in float32 whatever the compute dtype is.
    op.gradient_dtype = TSR_F32;
    op.dims[TSR_DIM_BATCH] = shape_.batch;
    op.dims[TSR_DIM_SEQ] = shape_.seq;
    op.dims[TSR_DIM_EMBED] = config_.embed;
    std::array<uint32_t, TSR_NUM_DIMS> names{};
    // Which named dim each extent is of: a split of heads then finds every op that has heads.
    names[TSR_DIM_BATCH] = TSR_DIM_BATCH;
    names[TSR_DIM_SEQ] = TSR_DIM_SEQ;
    names[TSR_DIM_EMBED] = TSR_DIM_EMBED;
    names[TSR_DIM_VOCAB] = TSR_DIM_VOCAB;
    if (kind == TSR_OP_TOKEN_EMBEDDING || kind == TSR_OP_LOSS) {
      op.dims[TSR_DIM_VOCAB] = config_.vocab;
      // LOSS does not read them; the ops that take its place when the vocabulary is split do.
      op.attributes[TSR_ATTR_VOCAB_COUNT] = op.attributes[TSR_ATTR_VOCAB_TOTAL] = static_cast<double>(config_.vocab);
    }
    if (kind == TSR_OP_POSITION_EMBEDDING) op.dims[TSR_DIM_POSITIONS] = config_.positions;
    if (kind == TSR_OP_LAYER_NORM || kind == TSR_OP_ADD_LAYER_NORM) op.attributes[TSR_ATTR_EPSILON] = config_.epsilon;
    if (kind == TSR_OP_LOSS) op.attributes[TSR_ATTR_SCALE] = shape_.loss_scale;
    model_.segments.push_back({name, op, std::move(parameters), std::move(inputs), std::move(outputs),
                               std::move(contractions), block_, names, true, is_row_wise(kind)});
    return model_.segments.back();
  }

  void linear(const std::string& name, std::vector<int> parameters, int input, int output, int64_t in, int64_t out,
              uint32_t contracted, int activation = TSR_ACTIVATION_NONE) {
    const bool has_bias = parameters.size() > 1;
    tsr_op& op =
        segment(name, TSR_OP_LINEAR, std::move(parameters), {input}, {output}, {{contracted, TSR_REDUCE_SUM}}).op;
    op.dims[TSR_DIM_EMBED] = 0;
    op.dims[TSR_DIM_IN] = in;
    op.dims[TSR_DIM_OUT] = out;
    op.attributes[TSR_ATTR_HAS_BIAS] = has_bias;
    Segment& linear = model_.segments.back();
    const std::vector<tsr_dim>& weight = model_.parameters[linear.parameters[0]].dims;
    linear.dim_names[TSR_DIM_EMBED] = 0;
    linear.dim_names[TSR_DIM_IN] = weight[0].name;
    linear.dim_names[TSR_DIM_OUT] = weight[1].name;
    op.attributes[TSR_ATTR_ACTIVATION] = activation;
  }

  int block(int x) {
    const std::string name = "h." + std::to_string(block_);
    const int u = unit(name);
    const int64_t head_dim = config_.embed / config_.num_heads;
    const auto named = [&](const char* text) { return name + "." + text; };
    const tsr_dim embed = dim(TSR_DIM_EMBED, config_.embed), ffn = dim(TSR_DIM_FFN, config_.ffn);
    // q, k and v are three blocks of one matrix; a split cuts each of them, at multiples of a head.
    const tsr_dim qkv3 = dim(TSR_DIM_HEADS, 3 * config_.embed, 3, head_dim);
    const tsr_dim heads = dim(TSR_DIM_HEADS, config_.embed, 1, head_dim);

    const int ln_1_weight = parameter(u, named("ln_1.weight"), {embed}),
              ln_1_bias = parameter(u, named("ln_1.bias"), {embed});
    const int qkv_weight = parameter(u, named("attn.c_attn.weight"), {embed, qkv3});
    const int qkv_bias = parameter(u, named("attn.c_attn.bias"), {qkv3});
    const int proj_weight = parameter(u, named("attn.c_proj.weight"), {heads, embed});
    const int proj_bias = parameter(u, named("attn.c_proj.bias"), {embed});
    const int ln_2_weight = parameter(u, named("ln_2.weight"), {embed}),
              ln_2_bias = parameter(u, named("ln_2.bias"), {embed});
    const int fc_weight = parameter(u, named("mlp.c_fc.weight"), {embed, ffn});
    const int fc_bias = parameter(u, named("mlp.c_fc.bias"), {ffn});
    const int fc_proj_weight = parameter(u, named("mlp.c_proj.weight"), {ffn, embed});
    const int fc_proj_bias = parameter(u, named("mlp.c_proj.bias"), {embed});

    const int norm_1 = activation(named("norm_1"), embed), qkv = activation(named("qkv"), qkv3);
    const int attended = activation(named("attended"), heads), projected = activation(named("projected"), embed);
    const int mid = activation(named("mid"), embed), norm_2 = activation(named("norm_2"), embed);
    const int hidden = activation(named("hidden"), ffn), ffn_out = activation(named("ffn_out"), embed);
    const int next = activation("h." + std::to_string(block_ + 1) + ".x", embed);
    model_.values[ffn_out].gradient_of = next;

    segment(named("ln_1"), TSR_OP_LAYER_NORM, {ln_1_weight, ln_1_bias}, {x}, {norm_1});
    linear(named("qkv"), {qkv_weight, qkv_bias}, norm_1, qkv, config_.embed, 3 * config_.embed, TSR_DIM_EMBED);
    Segment& attention = segment(named("attention"), TSR_OP_ATTENTION, {}, {qkv}, {attended});
    // Attention knows heads and their width only, so it works on however many heads a rank has.
    attention.op.dims[TSR_DIM_EMBED] = 0;
    attention.op.dims[TSR_DIM_HEADS] = config_.num_heads;
    attention.op.dims[TSR_DIM_HEAD_DIM] = head_dim;
    attention.dim_names[TSR_DIM_EMBED] = 0;
    attention.dim_names[TSR_DIM_HEADS] = TSR_DIM_HEADS;
    linear(named("proj"), {proj_weight}, attended, projected, config_.embed, config_.embed, TSR_DIM_HEADS);
    segment(named("add_ln_2"), TSR_OP_ADD_LAYER_NORM, {proj_bias, ln_2_weight, ln_2_bias}, {x, projected},
            {mid, norm_2});
    linear(named("fc_gelu"), {fc_weight, fc_bias}, norm_2, hidden, config_.embed, config_.ffn, TSR_DIM_EMBED,
           config_.activation);
    linear(named("fc_proj"), {fc_proj_weight}, hidden, ffn_out, config_.ffn, config_.embed, TSR_DIM_FFN);
    segment(named("add"), TSR_OP_ADD, {fc_proj_bias}, {mid, ffn_out}, {next});
    return next;
  }

  int block_ = -1;  // of the segments that are appended
  const Gpt2Config& config_;
  const BatchShape& shape_;
  Model model_;
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
