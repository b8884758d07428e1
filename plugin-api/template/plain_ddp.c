/* plain-ddp: data parallelism in its plainest form, as a complete Tessera plugin in C11. Copy it and change it.
 *
 * Every rank keeps all parameters and works on its own part of the batch. A strategy is a compiler pass, so this plugin
 * neither computes nor communicates: it inserts collectives into the host's program, and the host runs them.
 *   init  coordinate 0's parameters are broadcast over the axis
 *   step  each gradient is summed over the axis right after the last action that writes it
 *   eval  nothing
 * Sums are not divided: the loss is scaled once, by all tokens of the step.
 *
 * docs/plugin-abi.md has the rules; the headers have the contract of every function. */
#include <stdlib.h>
#include <string.h>
#include <tessera/strategy.h>

#define STR(literal) \
  { literal, sizeof(literal) - 1 }
#define DESTINATION TSR_SLOT(TSR_ROLE_DESTINATION, 0)
#define SOURCE TSR_SLOT(TSR_ROLE_SOURCE, 0)

static int equals(tsr_str s, const char* text) {
  return s.len == strlen(text) && memcmp(s.ptr, text, s.len) == 0;
}

/* Every function here fails through this one: `err` belongs to the caller, who zeroed it. */
static tsr_status fail(tsr_error* err, tsr_status code, const char* sentence) {
  if (err != NULL) {
    err->code = code;
    err->rank = -1;
    strncpy(err->domain, "plain-ddp", sizeof err->domain - 1);
    strncpy(err->message, sentence, sizeof err->message - 1);
  }
  return code;
}

/* ---- one instance: what create keeps, constant afterwards, so that lower is pure ------------------------------- */

struct tsr_strategy {
  int by_parameter; /* --plain-ddp.fuse=parameter */
};

static tsr_status create(const tsr_strategy_create_args* args, tsr_strategy** strategy, tsr_error* err) {
  if (!TSR_HAS(args, tsr_strategy_create_args, num_options))
    return fail(err, TSR_E_ABI, "create: struct_size of the arguments is smaller than ABI 0.12 requires");
  tsr_strategy* made = calloc(1, sizeof *made);
  if (made == NULL) return fail(err, TSR_E_RESOURCE_EXHAUSTED, "create: out of memory");
  for (uint64_t i = 0; i < args->num_options; ++i) /* valid already: the host checks them against kOptions */
    if (equals(args->options[i].name, "fuse")) made->by_parameter = equals(args->options[i].s, "parameter");
  *strategy = made;
  return TSR_OK;
}

static void destroy(tsr_strategy* strategy) {
  free(strategy);
}

/* ---- the pass ------------------------------------------------------------------------------------------------- */

typedef struct pass {
  const tsr_strategy* strategy;
  const tsr_program_view* view;
  const tsr_edit* edit;
  tsr_error* err;
  tsr_action action; /* what is inserted, but for its binding */
  tsr_binding* done; /* [num_done] ranges that have been dealt with */
  uint64_t num_done;
} pass;

static const tsr_binding* find_binding(const tsr_action* action, uint32_t slot) {
  for (uint64_t i = 0; i < action->num_bindings; ++i)
    if (action->bindings[i].slot == slot) return &action->bindings[i];
  return NULL;
}

static uint64_t buffer_elements(const tsr_program_view* view, uint64_t id) {
  for (uint64_t i = 0; i < view->num_buffers; ++i)
    if (view->buffers[i].id == id) return view->buffers[i].num_elements;
  return 0;
}

static int overlap(const tsr_binding* a, const tsr_binding* b) {
  return a->buffer == b->buffer && a->offset < b->offset + b->num_elements && b->offset < a->offset + a->num_elements;
}

/* The last action that writes or adds to the range; 0, which insert takes as the end of the list, if there is none. */
static uint64_t last_writer(const tsr_program_view* view, const tsr_binding* range) {
  for (uint64_t i = view->num_actions; i-- > 0;) {
    const tsr_action* action = &view->actions[i];
    for (uint64_t b = 0; b < action->num_bindings; ++b)
      if (action->bindings[b].mode != TSR_MODE_READ && overlap(&action->bindings[b], range)) return action->id;
  }
  return 0;
}

/* Inserts the collective over one range, or over the whole buffer it lies in, unless that has been done. */
static tsr_status collect(pass* p, uint64_t buffer, uint64_t offset, uint64_t num_elements) {
  tsr_binding range = {buffer, offset, num_elements, DESTINATION, TSR_MODE_ADD, {0}};
  if (!p->strategy->by_parameter) {
    range.offset = 0;
    range.num_elements = buffer_elements(p->view, buffer);
  }
  for (uint64_t i = 0; i < p->num_done; ++i)
    if (overlap(&p->done[i], &range)) return TSR_OK;
  p->done[p->num_done++] = range;
  p->action.bindings = &range;
  p->action.num_bindings = 1;
  uint64_t id = 0;
  return p->edit->insert(p->edit->ctx, last_writer(p->view, &range), TSR_AFTER, &p->action, &id, p->err);
}

/* The role of a home with that number, or NULL: a frozen parameter has no gradient. */
static const tsr_home_role* find_role(const tsr_home* home, uint32_t number) {
  for (uint32_t i = 0; i < home->num_roles; ++i)
    if (home->roles[i].number == number) return &home->roles[i];
  return NULL;
}

static tsr_status collect_role(pass* p, uint32_t number) {
  for (uint64_t h = 0; h < p->view->num_homes; ++h) {
    const tsr_home_role* place = find_role(&p->view->homes[h], number);
    if (place == NULL) continue;
    const tsr_status status = collect(p, place->buffer, place->offset, place->num_elements);
    if (status != TSR_OK) return status;
  }
  return TSR_OK;
}

static int is_home_gradient(const tsr_program_view* view, const tsr_binding* range) {
  for (uint64_t h = 0; h < view->num_homes; ++h) {
    const tsr_home_role* place = find_role(&view->homes[h], TSR_HOME_GRADIENT);
    if (place != NULL && place->buffer == range->buffer) return 1;
  }
  return 0;
}

/* --reduce-every=micro-batch: each micro-batch has gradients of its own, which an `add` puts into the home. What that
 * add reads is summed, not what it writes. */
static tsr_status collect_micro_batches(pass* p) {
  for (uint64_t i = 0; i < p->view->num_actions; ++i) {
    const tsr_action* action = &p->view->actions[i];
    if (action->kind != TSR_ACTION_ADD_INTO) continue;
    const tsr_binding* from = find_binding(action, SOURCE);
    const tsr_binding* to = find_binding(action, DESTINATION);
    if (from == NULL || to == NULL || !is_home_gradient(p->view, to)) continue;
    const tsr_status status = collect(p, from->buffer, from->offset, from->num_elements);
    if (status != TSR_OK) return status;
  }
  return TSR_OK;
}

static tsr_status collect_all(pass* p) {
  if (p->view->purpose == TSR_PURPOSE_INIT) return collect_role(p, TSR_HOME_VALUE);
  if (p->view->reduce_every == TSR_EVERY_MICRO_BATCH) return collect_micro_batches(p);
  return collect_role(p, TSR_HOME_GRADIENT);
}

static tsr_status lower(tsr_strategy* strategy, const tsr_program_view* view, const tsr_edit* edit, tsr_error* err) {
  if (!TSR_HAS(view, tsr_program_view, num_data_ranks) || !TSR_HAS_FN(edit, tsr_edit, insert))
    return fail(err, TSR_E_ABI, "lower: struct_size of the view or the edit table is smaller than ABI 0.12 requires");
  if (view->purpose > TSR_PURPOSE_EVAL) return fail(err, TSR_E_UNSUPPORTED, "lower: a program of unknown purpose");
  if (view->purpose == TSR_PURPOSE_EVAL) return TSR_OK;
  if (view->reduce_every != TSR_EVERY_STEP && view->reduce_every != TSR_EVERY_MICRO_BATCH)
    return fail(err, TSR_E_UNSUPPORTED, "lower: this --reduce-every is unknown; use step or micro-batch");

  pass p = {strategy, view, edit, err, {0}, NULL, 0};
  p.action.kind = view->purpose == TSR_PURPOSE_INIT ? TSR_ACTION_BROADCAST : TSR_ACTION_ALL_REDUCE;
  p.action.reduce = view->purpose == TSR_PURPOSE_INIT ? 0 : TSR_REDUCE_SUM;
  p.action.peer = view->purpose == TSR_PURPOSE_INIT ? 0 : -1; /* broadcast: the root, a coordinate of the axis */
  p.action.segment = p.action.micro_batch = p.action.strategy = -1;
  const tsr_group all_of_the_axis = {.axis = view->axis};
  const tsr_str lane = STR("gradient"); /* a stream of its own, so that sums run beside the backward */
  tsr_status status = edit->add_stream(edit->ctx, view->axis, lane, &p.action.stream, err);
  if (status == TSR_OK) status = edit->add_group(edit->ctx, &all_of_the_axis, &p.action.group, err);
  if (status != TSR_OK) return status; /* the host filled err */

  p.done = malloc((view->num_homes + view->num_actions) * sizeof *p.done);
  if (p.done == NULL) return fail(err, TSR_E_RESOURCE_EXHAUSTED, "lower: out of memory");
  status = collect_all(&p);
  free(p.done);
  return status;
}

/* ---- what the host learns of the plugin ------------------------------------------------------------------------ */

static const tsr_option kOptions[] = {
    {STR("fuse"), STR("unit"), STR("unit|parameter"), STR("what is summed together"), 1, 0, TSR_OPTION_STRING, 0, {0}},
};
static const tsr_descriptor kDescriptor = {
    .struct_size = sizeof(tsr_descriptor),
    .name = STR("plain-ddp"),
    .kind = STR(TSR_KIND_STRATEGY),
    .id = STR("com.example.plain-ddp"), /* yours; it never changes */
    .version = STR("1.0.0"),
    .vendor = STR("Example"),
    .summary = STR("data parallel: each gradient is summed after its last writer"),
    .options = kOptions,
    .num_options = sizeof kOptions / sizeof kOptions[0],
};
static const tsr_strategy_interface kInterface = {
    .struct_size = sizeof(tsr_strategy_interface),
    .role = TSR_STRATEGY_SPLIT_STORAGE,
    .splits = TSR_SPLITS_BATCH,
    .create = create,
    .destroy = destroy,
    .lower = lower, /* no layout: all is replicated; no variants, no call actions */
};

static const void* get_interface(tsr_str id) {
  return equals(id, TSR_STRATEGY_INTERFACE) ? &kInterface : NULL;
}
static const tsr_factory kFactory = {sizeof(tsr_factory), 0, &kDescriptor, get_interface};

TSR_EXPORT tsr_status tsr_plugin_query_v1(tsr_handshake* io, const tsr_host* host, const tsr_factory** factory,
                                          tsr_error* err) {
  (void)host; /* nothing to log, and query keeps nothing */
  if (io->magic != TSR_MAGIC) return fail(err, TSR_E_ABI, "query: the handshake has a wrong magic number");
  io->plugin_abi_major = TSR_ABI_MAJOR;
  io->plugin_minor_min = io->plugin_minor_max = TSR_ABI_MINOR; /* until 1.0: the minor of the header alone */
  if (io->abi_major != TSR_ABI_MAJOR || io->pointer_bits != 8 * sizeof(void*) || io->host_minor_min > TSR_ABI_MINOR ||
      io->host_minor_max < TSR_ABI_MINOR)
    return fail(err, TSR_E_ABI, "query: this plugin speaks ABI 0.12 on 64-bit machines and the host does not");
  *factory = &kFactory;
  return TSR_OK;
}
