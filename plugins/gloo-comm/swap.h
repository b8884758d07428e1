// Collectives and messages that reduce nothing.
#pragma once

#include "gloo-comm/operation.h"

namespace tessera::gloo_comm {

/// ALL_GATHER, BROADCAST, ALL_TO_ALL and BARRIER: whatever a rank sends another goes there directly.
void swap_slices(Operation& operation);

/// SEND, RECV and EXCHANGE: all at once; a message waits for its receive, and for nothing else.
void swap_messages(Operation& operation);

}  // namespace tessera::gloo_comm
