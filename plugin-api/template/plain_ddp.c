/* SPDX-License-Identifier: Apache-2.0 */
/* plain-ddp: data parallelism in its plainest form, as a complete Tessera plugin in C11. Copy it and change it.
 *
 * Every rank keeps all parameters and works on its own part of the batch. A strategy is a compiler pass, so this plugin
 * neither computes nor communicates: it inserts collectives into the host's program, and the host runs them.
 *   init  coordinate 0's parameters are broadcast over the axis
 *   step  each gradient is summed over the axis right after the last action that writes it; eval: nothing
 * Sums are not divided: the loss is scaled once, by all tokens of the step.
 * plugin-abi.md has the rules; the headers have the contract of every function. */
#include <stdlib.h>
#include <tessera/helpers.h>
#include <tessera/strategy.h>

static const uint32_t kDestination = TSR_SLOT(TSR_ROLE_DESTINATION, 0), kSource = TSR_SLOT(TSR_ROLE_SOURCE, 0);

static tsr_status fail(tsr_error* err, tsr_status code, const char* sentence) {
  return tsr_fail(err, code, "plain-ddp", sentence);
}

struct tsr_strategy {
  int nothing; /* what create keeps, constant afterwards, so that lower is pure; local_sgd.c has an option */
};

static tsr_status create(const tsr_strategy_create_args* args, tsr_strategy** strategy, tsr_error* err) {
  if (!TSR_HAS(args, tsr_strategy_create_args, num_options))
    return fail(err, TSR_E_ABI, "create: struct_size of the arguments is smaller than ABI 0.12 requires");
  *strategy = calloc(1, sizeof **strategy);
  return *strategy != NULL ? TSR_OK : fail(err, TSR_E_RESOURCE_EXHAUSTED, "create: out of memory");
}

static void destroy(tsr_strategy* strategy) {
  free(strategy);
}

typedef struct pass {
  const tsr_program_view* view;
  const tsr_edit* edit;
  tsr_error* err;
  tsr_action action; /* what is inserted, but for its binding */
} pass;

static tsr_status collect(pass* p, uint64_t buffer, uint64_t offset, uint64_t num_elements) {
  const tsr_binding range = {buffer, offset, num_elements, kDestination, TSR_MODE_ADD, {0}};
  p->action.bindings = &range;
  p->action.num_bindings = 1;
  uint64_t id = 0;
  return p->edit->insert(p->edit->ctx, tsr_last_writer(p->view, &range), TSR_AFTER, &p->action, &id, p->err);
}

static tsr_status collect_role(pass* p, uint32_t number) {
  for (uint64_t h = 0; h < p->view->num_homes; ++h) {
    const tsr_home_role* place = tsr_find_role(&p->view->homes[h], number);
    const tsr_status status = place ? collect(p, place->buffer, place->offset, place->num_elements) : TSR_OK;
    if (status != TSR_OK) return status;
  }
  return TSR_OK;
}

static int is_home_gradient(const tsr_program_view* view, const tsr_binding* range) {
  for (uint64_t h = 0; h < view->num_homes; ++h) {
    const tsr_home_role* gradient = tsr_find_role(&view->homes[h], TSR_HOME_GRADIENT);
    if (gradient != NULL && gradient->buffer == range->buffer) return 1;
  }
  return 0;
}

/* --reduce-every=micro-batch: each micro-batch has gradients of its own, which an `add` puts into the home. What that
 * add reads is summed, not what it writes. */
static tsr_status collect_micro_batches(pass* p) {
  for (uint64_t i = 0; i < p->view->num_actions; ++i) {
    const tsr_action* action = &p->view->actions[i];
    if (action->kind != TSR_ACTION_ADD_INTO) continue;
    const tsr_binding *from = tsr_find_binding(action, kSource), *to = tsr_find_binding(action, kDestination);
    if (from == NULL || to == NULL || !is_home_gradient(p->view, to)) continue;
    const tsr_status status = collect(p, from->buffer, from->offset, from->num_elements);
    if (status != TSR_OK) return status;
  }
  return TSR_OK;
}

static tsr_status lower(tsr_strategy* strategy, const tsr_program_view* view, const tsr_edit* edit, tsr_error* err) {
  (void)strategy;
  if (!TSR_HAS(view, tsr_program_view, optimizer) || !TSR_HAS_FN(edit, tsr_edit, insert))
    return fail(err, TSR_E_ABI, "lower: struct_size of the view or the edit table is smaller than ABI 0.12 requires");
  const int is_init = view->purpose == TSR_PURPOSE_INIT;
  if (view->purpose == TSR_PURPOSE_EVAL) return TSR_OK;
  if (view->purpose > TSR_PURPOSE_EVAL || view->reduce_every > TSR_EVERY_MICRO_BATCH || view->reduce_dtype != TSR_F32)
    return fail(err, TSR_E_UNSUPPORTED, "lower: use --reduce-every=step or micro-batch, and --reduce-dtype=float32");
  pass p = {view, edit, err, TSR_ACTION_INIT};
  p.action.kind = is_init ? TSR_ACTION_BROADCAST : TSR_ACTION_ALL_REDUCE;
  p.action.reduce = is_init ? 0 : TSR_REDUCE_SUM;
  p.action.peer = is_init ? 0 : -1; /* broadcast: the root, a coordinate of the axis */
  const tsr_group all_of_the_axis = {.axis = view->axis};
  const tsr_str lane = TSR_STR("gradient"); /* a stream of its own, so that sums run beside the backward */
  tsr_status status = edit->add_stream(edit->ctx, view->axis, lane, &p.action.stream, err);
  if (status == TSR_OK) status = edit->add_group(edit->ctx, &all_of_the_axis, &p.action.group, err);
  if (status != TSR_OK) return status; /* the host filled err */
  if (view->reduce_every == TSR_EVERY_MICRO_BATCH && !is_init) return collect_micro_batches(&p);
  return collect_role(&p, is_init ? TSR_HOME_VALUE : TSR_HOME_GRADIENT);
}

static const tsr_descriptor kDescriptor = {
    .struct_size = sizeof(tsr_descriptor),
    .name = TSR_STR("plain-ddp"),
    .kind = TSR_STR(TSR_KIND_STRATEGY),
    .id = TSR_STR("com.example.plain-ddp"), /* yours; it never changes */
    .version = TSR_STR("1.0.0"),
    .vendor = TSR_STR("Example"),
    .summary = TSR_STR("data parallel: each gradient is summed after its last writer"),
};
static const tsr_strategy_interface kInterface = {
    .struct_size = sizeof(tsr_strategy_interface),
    .role = TSR_STRATEGY_SPLIT_STORAGE,
    .splits = TSR_SPLITS_BATCH,
    .create = create,
    .destroy = destroy,
    .lower = lower, /* no layout: all is replicated; no variants, no call actions */
};

TSR_DEFINE_PLUGIN("plain-ddp", kDescriptor, TSR_STRATEGY_INTERFACE, kInterface)
