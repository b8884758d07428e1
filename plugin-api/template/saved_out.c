/* SPDX-License-Identifier: Apache-2.0 */
/* saved-out: what the forward keeps for the backward waits in host memory. A whole offload policy in C11. A policy
 * moves nothing: it tells the host which items (buffers) leave device memory after which visit, and how many visits
 * before their next use they are fetched. plugin-abi.md has the rules, tessera/offload.h the contract. */
#include <stdlib.h>
#include <tessera/helpers.h>
#include <tessera/offload.h>

static tsr_status fail(tsr_error* err, tsr_status code, const char* sentence) {
  return tsr_fail(err, code, "saved-out", sentence);
}

struct tsr_offload {
  uint32_t ahead; /* --saved-out.ahead */
};

static tsr_status create(const tsr_offload_create_args* args, tsr_offload** policy, tsr_error* err) {
  if (!TSR_HAS(args, tsr_offload_create_args, num_options))
    return fail(err, TSR_E_ABI, "create: struct_size of the arguments is smaller than ABI 0.12 requires");
  tsr_offload* made = calloc(1, sizeof *made);
  if (made == NULL) return fail(err, TSR_E_RESOURCE_EXHAUSTED, "create: out of memory");
  made->ahead = (uint32_t)tsr_find_option(args->options, args->num_options, "ahead")->i;
  *policy = made;
  return TSR_OK;
}

static void destroy(tsr_offload* policy) {
  free(policy);
}

/* Each gap between two uses of a saved tensor in which more than the way out and the way back, `ahead` visits, fits. */
static tsr_status plan(tsr_offload* policy, const tsr_offload_view* view, const tsr_offload_sink* sink,
                       tsr_error* err) {
  if (!TSR_HAS(view, tsr_offload_view, num_items) || !TSR_HAS_FN(sink, tsr_offload_sink, leave))
    return fail(err, TSR_E_ABI, "plan: struct_size of the view or the sink is smaller than ABI 0.12 requires");
  uint64_t place = 0;
  while (place < view->num_places && view->places[place].memory != TSR_MEMORY_HOST)
    ++place;
  if (place == view->num_places) return TSR_OK; /* no host memory is offered */
  for (uint64_t i = 0; i < view->num_items; ++i) {
    const tsr_item* item = &view->items[i];
    if (item->kind != TSR_BUFFER_SAVED && item->kind != TSR_BUFFER_ACTIVATION) continue;
    for (uint64_t u = 0; u + 1 < item->num_uses; ++u) {
      if (item->uses[u + 1].visit - item->uses[u].visit <= policy->ahead + 2) continue;
      const tsr_leave leave = {item->buffer, item->uses[u].visit, TSR_MEMORY_HOST, policy->ahead, 1, {0}};
      const tsr_status status = sink->leave(sink->ctx, &leave, err);
      if (status != TSR_OK) return status; /* the host filled err */
    }
  }
  return TSR_OK;
}

static const tsr_option kOptions[] = {
    {TSR_STR("ahead"),
     TSR_STR("1"),
     TSR_STR(""),
     TSR_STR("visits between fetch and use"),
     0,
     64,
     TSR_OPTION_INT,
     0,
     {0}},
};
static const tsr_descriptor kDescriptor = {
    .struct_size = sizeof(tsr_descriptor),
    .name = TSR_STR("saved-out"),
    .kind = TSR_STR(TSR_KIND_OFFLOAD),
    .id = TSR_STR("com.example.saved-out"),
    .version = TSR_STR("1.0.0"),
    .vendor = TSR_STR("Example"),
    .summary = TSR_STR("what the forward keeps for the backward waits in host memory"),
    .options = kOptions,
    .num_options = sizeof kOptions / sizeof kOptions[0],
};
static const tsr_offload_interface kInterface = {
    .struct_size = sizeof(tsr_offload_interface), .create = create, .destroy = destroy, .plan = plan};

TSR_DEFINE_PLUGIN("saved-out", kDescriptor, TSR_OFFLOAD_INTERFACE, kInterface)
