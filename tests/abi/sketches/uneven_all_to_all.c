/* Tokens to their experts and back, with more for some ranks than for others: an ALL_TO_ALL whose counts say what each
 * member is sent, then what each sends here. Counts that only routing knows would come as a slot of the collective. */
#include <tessera/strategy.h>

#define NUM_RANKS 3

tsr_status dispatch(const tsr_edit* edit, int32_t group, uint32_t stream, uint64_t anchor, uint64_t from, uint64_t to,
                    tsr_error* err);
tsr_status dispatch(const tsr_edit* edit, int32_t group, uint32_t stream, uint64_t anchor, uint64_t from, uint64_t to,
                    tsr_error* err) {
  const uint64_t counts[2 * NUM_RANKS] = {4, 0, 12, /* sent: 16 elements */
                                          4, 8, 2 /* received: 14 */};
  const tsr_binding bindings[] = {
      {from, 0, 16, TSR_SLOT(TSR_ROLE_SOURCE, 0), TSR_MODE_READ, {0}},
      {to, 0, 14, TSR_SLOT(TSR_ROLE_DESTINATION, 0), TSR_MODE_WRITE, {0}},
  };
  tsr_action action = {0};
  uint64_t id;
  action.kind = TSR_ACTION_ALL_TO_ALL;
  action.stream = stream;
  action.group = group;
  action.segment = action.micro_batch = action.peer = action.strategy = -1;
  action.bindings = bindings;
  action.num_bindings = 2;
  action.counts = counts;
  action.num_counts = 2 * NUM_RANKS;
  return edit->insert(edit->ctx, anchor, TSR_AFTER, &action, &id, err);
}
