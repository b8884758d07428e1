// Reads the bindings of collectives. There are two forms, here of all_gather in a group of 2:
//
//     all_gather group=dp  r %10 src  w %26 dst        out of place: the own slice, and the whole
//     all_gather group=dp  a %14 dst                   in place: the whole, which holds the own slice at its position
//
// In place the whole is bound with *add*, although only the own slice is read. accesses() tells the verifiers so: the
// other slices may be unwritten before the action.

#include "program/collective_operands.h"

namespace tessera::host {

CollectiveOperands::CollectiveOperands(const Program& program, const Action& action) {
  const Group& group = program.groups[action.group];
  source = action.find(kSource);
  destination = action.find(kDestination);
  in_place = !source && destination && destination->mode == TSR_MODE_ADD;
  position = program.mesh->position(group, program.coordinates);
  num_ranks = program.mesh->num_members(group);
}

std::vector<uint64_t> slice_offsets(const Action& action, uint64_t num_elements, int num_ranks) {
  std::vector<uint64_t> offsets{0};
  for (int i = 0; i < num_ranks; ++i)
    offsets.push_back(offsets.back() + (action.counts.empty() ? num_elements / num_ranks : action.counts[i]));
  return offsets;
}

std::vector<Binding> accesses(const Program& program, const Action& action) {
  std::vector<Binding> result = action.bindings;
  if (action.kind != TSR_ACTION_ALL_GATHER) return result;
  const CollectiveOperands form(program, action);
  if (!form.in_place) return result;
  const Binding whole = *form.destination;
  const auto offsets = slice_offsets(action, whole.num_elements, form.num_ranks);
  const auto put = [&](uint64_t begin, uint64_t end, uint32_t mode) {
    if (begin < end) result.push_back({whole.buffer, whole.offset + begin, end - begin, whole.slot, mode});
  };
  std::erase_if(result, [&](const Binding& b) { return b.slot == whole.slot; });
  put(0, offsets[form.position], TSR_MODE_WRITE);
  put(offsets[form.position], offsets[form.position + 1], TSR_MODE_ADD);
  put(offsets[form.position + 1], whole.num_elements, TSR_MODE_WRITE);
  return result;
}

std::vector<Message> messages_of(const Action& action) {
  std::vector<Message> messages;
  for (const uint32_t role : {TSR_ROLE_SOURCE, TSR_ROLE_DESTINATION})
    for (uint32_t i = 0; const Binding* binding = action.find(TSR_SLOT(role, i)); ++i) {
      const size_t place = messages.size();
      const int peer = action.kind == TSR_ACTION_EXCHANGE ? action.peers[place] : action.peer;
      messages.push_back({binding, peer, role == TSR_ROLE_DESTINATION});
    }
  return messages;
}

}  // namespace tessera::host
