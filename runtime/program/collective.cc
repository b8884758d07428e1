// Translates a collective action into the struct of the communicator's ABI. An action binds ranges, the ABI counts
// elements: `num_elements` is one rank's slice for all_gather, reduce_scatter and all_to_all, and the whole for the
// others. For kinds with both source and destination that is the smaller of the two; in place only the whole is bound,
// and is divided.

#include "program/collective.h"

#include <algorithm>

namespace tessera::host {

tsr_collective collective_of(const Program& program, const Action& action) {
  const Binding* source = action.find(kSource);
  const Binding* destination = action.find(kDestination);
  tsr_collective c{};
  c.struct_size = sizeof c;
  c.kind = action.kind - TSR_ACTION_COLLECTIVE(0);
  c.reduce = action.reduce;
  c.peer = action.peer;
  c.dtype = TSR_U8;
  if (!source && !destination) return c;  // a barrier
  c.dtype = program.buffer((source ? source : destination)->buffer).dtype;
  const uint64_t sent = source ? source->num_elements : UINT64_MAX;
  const uint64_t received = destination ? destination->num_elements : UINT64_MAX;
  c.num_elements = std::min(sent, received);
  if (!action.counts.empty()) c.counts = action.counts.data();
  if (c.kind == TSR_COLL_ALL_TO_ALL && c.counts) c.recv_counts = c.counts + action.counts.size() / 2;
  const bool slices_in_place = !source && (c.kind == TSR_COLL_ALL_GATHER || c.kind == TSR_COLL_REDUCE_SCATTER);
  if (c.kind == TSR_COLL_ALL_TO_ALL || slices_in_place)
    c.num_elements /= static_cast<uint64_t>(program.mesh->num_members(program.groups[action.group]));
  return c;
}

}  // namespace tessera::host
