#include "compile/edit/edit_checks.h"

#include <string>

#include "guard/readable.h"
#include "tessera/error.hpp"

namespace tessera::host {

const tsr_group& checked_group(const tsr_group* group) {
  checked(group, "the group");
  check_array(group->coordinates, group->num_coordinates, "the group's array coordinates");
  return *group;
}

const tsr_buffer& checked_buffer(const tsr_buffer* buffer) {
  checked(buffer, "the buffer");
  check_text(buffer->name, "the buffer's name");
  return *buffer;
}

const tsr_action& checked_action(const tsr_action* action) {
  checked(action, "the action");
  check_array(action->bindings, action->num_bindings, "the action's array bindings");
  if (action->counts) check_array(action->counts, action->num_counts, "the action's array counts");
  if (action->peers) check_array(action->peers, action->num_peers, "the action's array peers");
  return *action;
}

const tsr_state_description& checked_state(const tsr_state_description* state) {
  checked(state, "the description of state");
  if (!TSR_HAS(state, tsr_state_description, reserved))
    throw Error(TSR_E_ABI, "the description of state has struct_size " + std::to_string(state->struct_size) +
                               ", which is too small");
  if (state->reserved) throw Error(TSR_E_INVALID_ARGUMENT, "the reserved word of the description of state is not 0");
  return *state;
}

const tsr_layout_entry& checked_entry(const tsr_layout_entry* entry) {
  checked(entry, "the layout entry");
  check_array(entry->coordinates, entry->num_coordinates, "the layout entry's array coordinates");
  return *entry;
}

const tsr_home* checked_home(const tsr_home* home) {
  if (!home) return nullptr;
  checked(home, "the home");
  check_text(home->name, "the home's name");
  check_array(home->pieces, home->num_pieces, "the home's array pieces");
  check_array(home->roles, home->num_roles, "the home's array roles");
  return home;
}

}  // namespace tessera::host
