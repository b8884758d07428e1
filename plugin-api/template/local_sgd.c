/* local-sgd: every rank of the axis trains parameters of its own, on its own part of the batch; every H steps they are
 * averaged. A second plugin in C11, smaller than plain_ddp.c, which explains more.
 *
 *   layout  all trainable parameters diverge over the axis. So the host scales the loss for the rank's own tokens,
 *           clips by the rank's own norm, and does not require gradients to be summed
 *   init    nothing: all start from the same values, and a run that is resumed from values that already differ
 *   step    one program for each step % H; in the last one the axis averages each home's value after its update
 *   eval    nothing
 * It names homes, not parameters or ranks, so other axes may cut layers, tensors or homes before it. */
#include <stdlib.h>
#include <string.h>
#include <tessera/strategy.h>

#define STR(literal) \
  { literal, sizeof(literal) - 1 }
#define DESTINATION TSR_SLOT(TSR_ROLE_DESTINATION, 0)

static int equals(tsr_str s, const char* text) {
  return s.len == strlen(text) && memcmp(s.ptr, text, s.len) == 0;
}

static tsr_status fail(tsr_error* err, tsr_status code, const char* sentence) {
  if (err != NULL) {
    err->code = code;
    err->rank = -1;
    strncpy(err->domain, "local-sgd", sizeof err->domain - 1);
    strncpy(err->message, sentence, sizeof err->message - 1);
  }
  return code;
}

struct tsr_strategy {
  uint32_t every; /* --local-sgd.every: H */
};

static tsr_status create(const tsr_strategy_create_args* args, tsr_strategy** strategy, tsr_error* err) {
  if (!TSR_HAS(args, tsr_strategy_create_args, num_options))
    return fail(err, TSR_E_ABI, "create: struct_size of the arguments is smaller than ABI 0.12 requires");
  tsr_strategy* made = calloc(1, sizeof *made);
  if (made == NULL) return fail(err, TSR_E_RESOURCE_EXHAUSTED, "create: out of memory");
  for (uint64_t i = 0; i < args->num_options; ++i) /* complete and in range: the host checks them against kOptions */
    if (equals(args->options[i].name, "every")) made->every = (uint32_t)args->options[i].i;
  *strategy = made;
  return TSR_OK;
}

static void destroy(tsr_strategy* strategy) {
  free(strategy);
}

static uint32_t num_variants(tsr_strategy* strategy) {
  return strategy->every;
}

static tsr_status layout(tsr_strategy* strategy, const tsr_program_view* view, const tsr_layout_sink* sink,
                         tsr_error* err) {
  (void)strategy;
  if (!TSR_HAS(view, tsr_program_view, num_data_ranks) || !TSR_HAS_FN(sink, tsr_layout_sink, add_entry))
    return fail(err, TSR_E_ABI, "layout: struct_size of the view or the sink is smaller than ABI 0.12 requires");
  tsr_status status = TSR_OK;
  for (uint64_t p = 0; p < view->num_parameters && status == TSR_OK; ++p) {
    if (view->parameters[p].flags & TSR_PARAMETER_FROZEN) continue; /* never changes */
    tsr_layout_entry entry = {0};
    entry.parameter = (int32_t)p;
    entry.axis = view->axis;
    entry.roles = TSR_ALL_HOME_ROLES;
    entry.kind = TSR_LAYOUT_DIVERGENT;
    entry.dim = -1;
    entry.parts = entry.blocks = 1;
    status = sink->add_entry(sink->ctx, &entry, err);
  }
  return status;
}

/* Inserts the average of what an optimizer action updates right after it. */
static tsr_status average(const tsr_edit* edit, tsr_action* all_reduce, const tsr_action* update, tsr_error* err) {
  for (uint64_t b = 0; b < update->num_bindings; ++b) {
    if (update->bindings[b].slot != DESTINATION) continue;
    all_reduce->bindings = &update->bindings[b]; /* in place: the same range, slot and mode */
    all_reduce->num_bindings = 1;
    uint64_t id = 0;
    return edit->insert(edit->ctx, update->id, TSR_AFTER, all_reduce, &id, err);
  }
  return fail(err, TSR_E_INVALID_ARGUMENT, "lower: an optimizer action updates nothing");
}

static tsr_status lower(tsr_strategy* strategy, const tsr_program_view* view, const tsr_edit* edit, tsr_error* err) {
  if (!TSR_HAS(view, tsr_program_view, num_data_ranks) || !TSR_HAS_FN(edit, tsr_edit, insert))
    return fail(err, TSR_E_ABI, "lower: struct_size of the view or the edit table is smaller than ABI 0.12 requires");
  if (view->purpose > TSR_PURPOSE_EVAL) return fail(err, TSR_E_UNSUPPORTED, "lower: a program of unknown purpose");
  if (view->purpose != TSR_PURPOSE_STEP || view->variant != strategy->every - 1) return TSR_OK;
  tsr_action all_reduce = {0};
  all_reduce.kind = TSR_ACTION_ALL_REDUCE;
  all_reduce.reduce = TSR_REDUCE_AVG;
  all_reduce.segment = all_reduce.micro_batch = all_reduce.peer = all_reduce.strategy = -1;
  const tsr_group all_of_the_axis = {.axis = view->axis};
  const tsr_str lane = STR("average");
  tsr_status status = edit->add_stream(edit->ctx, view->axis, lane, &all_reduce.stream, err);
  if (status == TSR_OK) status = edit->add_group(edit->ctx, &all_of_the_axis, &all_reduce.group, err);
  for (uint64_t i = 0; i < view->num_actions && status == TSR_OK; ++i)
    if (view->actions[i].kind == TSR_ACTION_OPTIMIZER) status = average(edit, &all_reduce, &view->actions[i], err);
  return status;
}

static const tsr_option kOptions[] = {
    {STR("every"), STR("4"), STR(""), STR("steps from one average to the next"), 1, 64, TSR_OPTION_INT, 0, {0}},
};
static const tsr_descriptor kDescriptor = {
    .struct_size = sizeof(tsr_descriptor),
    .name = STR("local-sgd"),
    .kind = STR(TSR_KIND_STRATEGY),
    .id = STR("com.example.local-sgd"),
    .version = STR("1.0.0"),
    .vendor = STR("Example"),
    .summary = STR("each rank trains alone; parameters are averaged every few steps"),
    .options = kOptions,
    .num_options = sizeof kOptions / sizeof kOptions[0],
};
static const tsr_strategy_interface kInterface = {
    .struct_size = sizeof(tsr_strategy_interface),
    .role = TSR_STRATEGY_SPLIT_STORAGE,
    .splits = TSR_SPLITS_BATCH,
    .create = create,
    .destroy = destroy,
    .num_variants = num_variants,
    .layout = layout,
    .lower = lower,
};

static const void* get_interface(tsr_str id) {
  return equals(id, TSR_STRATEGY_INTERFACE) ? &kInterface : NULL;
}
static const tsr_factory kFactory = {sizeof(tsr_factory), 0, &kDescriptor, get_interface};

TSR_EXPORT tsr_status tsr_plugin_query_v1(tsr_handshake* io, const tsr_host* host, const tsr_factory** factory,
                                          tsr_error* err) {
  (void)host;
  if (io->magic != TSR_MAGIC) return fail(err, TSR_E_ABI, "query: the handshake has a wrong magic number");
  io->plugin_abi_major = TSR_ABI_MAJOR;
  io->plugin_minor_min = io->plugin_minor_max = TSR_ABI_MINOR;
  if (io->abi_major != TSR_ABI_MAJOR || io->pointer_bits != 8 * sizeof(void*) || io->host_minor_min > TSR_ABI_MINOR ||
      io->host_minor_max < TSR_ABI_MINOR)
    return fail(err, TSR_E_ABI, "query: this plugin speaks ABI 0.12 on 64-bit machines and the host does not");
  *factory = &kFactory;
  return TSR_OK;
}
