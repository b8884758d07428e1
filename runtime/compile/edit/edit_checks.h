// The pointers that a strategy hands over with an edit, checked before they are followed: a wrong one is refused in a
// sentence, where it would crash the host.
#pragma once

#include "tessera/strategy.h"

namespace tessera::host {

/// Each returns what the pointer leads to, and throws INVALID_ARGUMENT if that, or an array of it, is null, longer than
/// readable.h allows, or cannot be read.
const tsr_group& checked_group(const tsr_group* group);
const tsr_buffer& checked_buffer(const tsr_buffer* buffer);
const tsr_action& checked_action(const tsr_action* action);
const tsr_layout_entry& checked_entry(const tsr_layout_entry* entry);
/// Throws ABI, too, for one that is shorter than this minor's.
const tsr_state_description& checked_state(const tsr_state_description* state);
/// Null is allowed: no home.
const tsr_home* checked_home(const tsr_home* home);
}  // namespace tessera::host
