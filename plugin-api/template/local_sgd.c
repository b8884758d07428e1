/* SPDX-License-Identifier: Apache-2.0 */
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
#include <tessera/helpers.h>
#include <tessera/strategy.h>

#define DESTINATION TSR_SLOT(TSR_ROLE_DESTINATION, 0)

static tsr_status fail(tsr_error* err, tsr_status code, const char* sentence) {
  return tsr_fail(err, code, "local-sgd", sentence);
}

struct tsr_strategy {
  uint32_t every; /* --local-sgd.every: H */
};

static tsr_status create(const tsr_strategy_create_args* args, tsr_strategy** strategy, tsr_error* err) {
  if (!TSR_HAS(args, tsr_strategy_create_args, num_options))
    return fail(err, TSR_E_ABI, "create: struct_size of the arguments is smaller than ABI 0.12 requires");
  tsr_strategy* made = calloc(1, sizeof *made);
  if (made == NULL) return fail(err, TSR_E_RESOURCE_EXHAUSTED, "create: out of memory");
  /* It is there and in range: the host checks options against kOptions. */
  made->every = (uint32_t)tsr_find_option(args->options, args->num_options, "every")->i;
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
  if (!TSR_HAS(view, tsr_program_view, optimizer) || !TSR_HAS_FN(sink, tsr_layout_sink, add_entry))
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
  if (!TSR_HAS(view, tsr_program_view, optimizer) || !TSR_HAS_FN(edit, tsr_edit, insert))
    return fail(err, TSR_E_ABI, "lower: struct_size of the view or the edit table is smaller than ABI 0.12 requires");
  if (view->purpose > TSR_PURPOSE_EVAL || view->reduce_every > TSR_EVERY_MICRO_BATCH)
    return fail(err, TSR_E_UNSUPPORTED, "lower: unknown purpose, or point at which gradients are reduced");
  if (view->purpose != TSR_PURPOSE_STEP || view->variant != strategy->every - 1) return TSR_OK;
  tsr_action all_reduce = TSR_ACTION_INIT;
  all_reduce.kind = TSR_ACTION_ALL_REDUCE;
  all_reduce.reduce = TSR_REDUCE_AVG;
  const tsr_group all_of_the_axis = {.axis = view->axis};
  const tsr_str lane = TSR_STR("average");
  tsr_status status = edit->add_stream(edit->ctx, view->axis, lane, &all_reduce.stream, err);
  if (status == TSR_OK) status = edit->add_group(edit->ctx, &all_of_the_axis, &all_reduce.group, err);
  for (uint64_t i = 0; i < view->num_actions && status == TSR_OK; ++i)
    if (view->actions[i].kind == TSR_ACTION_OPTIMIZER) status = average(edit, &all_reduce, &view->actions[i], err);
  return status;
}

static const tsr_option kOptions[] = {
    {TSR_STR("every"),
     TSR_STR("4"),
     TSR_STR(""),
     TSR_STR("steps from one average to the next"),
     1,
     64,
     TSR_OPTION_INT,
     0,
     {0}},
};
static const tsr_descriptor kDescriptor = {
    .struct_size = sizeof(tsr_descriptor),
    .name = TSR_STR("local-sgd"),
    .kind = TSR_STR(TSR_KIND_STRATEGY),
    .id = TSR_STR("com.example.local-sgd"),
    .version = TSR_STR("1.0.0"),
    .vendor = TSR_STR("Example"),
    .summary = TSR_STR("each rank trains alone; parameters are averaged every few steps"),
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

TSR_DEFINE_PLUGIN("local-sgd", kDescriptor, TSR_STRATEGY_INTERFACE, kInterface)
