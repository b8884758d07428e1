// Collectives without a reduction, and messages between two ranks.
#pragma once

#include "gloo-comm/collectives/operation.h"

namespace tessera::gloo_comm {

/// ALL_GATHER, BROADCAST, ALL_TO_ALL and BARRIER: data goes from its source to each destination directly.
void exchange_slices(Operation& operation);

/// SEND, RECV and EXCHANGE: all messages at once; a message waits for its receive only.
void exchange_messages(Operation& operation);

}  // namespace tessera::gloo_comm
