/* A whole model: a residual MLP over single tokens, with the private ops of the two plugins beside it. Shapes, splits,
 * costs, recomputation, checkpoints and Hugging Face's file follow from what is here. */
#include "helpers.h"

typedef struct { /* what every helper needs: the sink, and the first error */
  const tsr_model_sink* sink;
  tsr_error* err;
  tsr_status status;
} Builder;

static void unit(Builder* b, const char* name, int32_t block) {
  if (b->status == TSR_OK) b->status = b->sink->unit(b->sink->ctx, (tsr_str){name, strlen(name)}, block, b->err);
}

static int32_t parameter(Builder* b, const char* name, const tsr_named_dim* dims, uint64_t num_dims, uint32_t init,
                         double a, double d) {
  const tsr_model_parameter p = {sizeof p, init, {name, strlen(name)}, dims, num_dims, a, d, {"", 0}, 0};
  int32_t index = -1;
  if (b->status == TSR_OK) b->status = b->sink->parameter(b->sink->ctx, &p, &index, b->err);
  return index;
}

static int32_t apply(Builder* b, const char* name, const char* op, const int32_t* parameters, uint32_t num_parameters,
                     const int32_t* inputs, uint32_t num_inputs) {
  const tsr_model_segment s = {
      sizeof s, num_parameters, {name, strlen(name)}, {op, strlen(op)}, parameters, inputs, num_inputs, 0, NULL, NULL};
  int32_t outputs[8] = {-1};
  if (b->status == TSR_OK) b->status = b->sink->segment(b->sink->ctx, &s, outputs, b->err);
  return outputs[0];
}
#define APPLY(b, name, op, parameter, ...)                                            \
  apply(b, name, op, (const int32_t[]){parameter}, 1, (const int32_t[]){__VA_ARGS__}, \
        sizeof((const int32_t[]){__VA_ARGS__}) / 4)

static tsr_named_dim dim(const char* name, double extent) {
  return (tsr_named_dim){{name, strlen(name)}, (int64_t)extent, 1, {0, 0}};
}

static tsr_status build(const tsr_model_config* config, int64_t batch, int64_t seq, const tsr_model_sink* sink,
                        int32_t out[2], tsr_error* err) {
  (void)batch, (void)seq;
  double width, hidden, layers, vocab;
  if (config->number(config->ctx, (tsr_str)TSR_STR("hidden_size"), &width) != TSR_OK ||
      config->number(config->ctx, (tsr_str)TSR_STR("intermediate_size"), &hidden) != TSR_OK ||
      config->number(config->ctx, (tsr_str)TSR_STR("num_hidden_layers"), &layers) != TSR_OK ||
      config->number(config->ctx, (tsr_str)TSR_STR("vocab_size"), &vocab) != TSR_OK)
    return tsr_fail(err, TSR_E_INVALID_ARGUMENT, "tiny",
                    "config.json needs hidden_size, intermediate_size, num_hidden_layers and vocab_size");
  Builder b = {sink, err, TSR_OK};
  const tsr_named_dim c = dim("embed", width), f = dim("ffn", hidden), v = dim("vocab", vocab);
  char name[64];
  int32_t tokens = -1;
  b.status = sink->input(sink->ctx, (tsr_str)TSR_STR("tokens"), &tokens, err);
  unit(&b, "embed", -1);
  int32_t x = APPLY(&b, "embed", "token_embedding",
                    parameter(&b, "embed.weight", (tsr_named_dim[]){v, c}, 2, TSR_INIT_NORMAL, 0, 0.02), tokens);
  for (int32_t layer = 0; layer < (int32_t)layers; ++layer) {
#define NAMED(what) (snprintf(name, sizeof name, "layers.%d." what, layer), name)
    unit(&b, NAMED("block"), layer);
    int32_t w = parameter(&b, NAMED("norm.weight"), &c, 1, TSR_INIT_CONSTANT, 1, 0);
    int32_t h = APPLY(&b, NAMED("norm"), "example.l1_norm", w, x);
    w = parameter(&b, NAMED("up.weight"), (tsr_named_dim[]){f, c}, 2, TSR_INIT_NORMAL, 0, 0.02);
    h = APPLY(&b, NAMED("up"), "linear", w, h);
    w = parameter(&b, NAMED("snake.weight"), &f, 1, TSR_INIT_CONSTANT, 1, 0);
    h = APPLY(&b, NAMED("snake"), "example.snake", w, h);
    w = parameter(&b, NAMED("down.weight"), (tsr_named_dim[]){c, f}, 2, TSR_INIT_NORMAL, 0, 0.02);
    h = APPLY(&b, NAMED("down"), "linear", w, h);
    x = apply(&b, NAMED("add"), "add", NULL, 0, (const int32_t[]){x, h}, 2);
  }
  unit(&b, "head", -1);
  out[0] = x;
  out[1] = parameter(&b, "head.weight", (tsr_named_dim[]){v, c}, 2, TSR_INIT_NORMAL, 0, 0.02);
  return b.status;
}

static const tsr_model_interface kTable = {sizeof kTable, 0, {"TinyForCausalLM", 15}, build};
PLUGIN("tiny", TSR_KIND_MODEL, "org.example.tiny", TSR_MODEL_INTERFACE, kTable)
