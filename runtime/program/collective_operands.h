// The operands of a collective action, read from its bindings.
#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"

namespace tessera::host {

/// SOURCE 0 and DESTINATION 0 of a collective. In place there is only a destination, with mode *add*.
struct CollectiveOperands {
  const Binding* source = nullptr;
  const Binding* destination = nullptr;
  bool in_place = false;
  int position = -1;  ///< of this rank in the group
  int num_ranks = 0;  ///< of the group

  explicit CollectiveOperands(const Program& program, const Action& action);

  /// What this rank gives: the source, or the destination when in place. Null for a rank that only receives.
  const Binding* given() const { return in_place ? destination : source; }
};

/// The num_ranks + 1 offsets of the slices of `num_elements` elements: by action.counts, or equal.
std::vector<uint64_t> slice_offsets(const Action& action, uint64_t num_elements, int num_ranks);

/// The bindings of an action, by how it really accesses them: in place, an all_gather only reads its own slice (listed
/// with mode *add*, which leaves it as it was) and writes the others.
std::vector<Binding> accesses(const Program& program, const Action& action);

inline bool reduces(uint32_t kind) {
  return kind == TSR_ACTION_ALL_REDUCE || kind == TSR_ACTION_REDUCE_SCATTER || kind == TSR_ACTION_REDUCE;
}
inline bool has_root(uint32_t kind) {
  return kind == TSR_ACTION_BROADCAST || kind == TSR_ACTION_REDUCE;
}
/// SEND, RECV and EXCHANGE: between pairs of ranks.
inline bool is_message(uint32_t kind) {
  return kind >= TSR_ACTION_SEND && kind <= TSR_ACTION_EXCHANGE;
}
/// A send ends when it is received, so what waits for it waits for another rank.
inline bool sends(uint32_t kind) {
  return kind == TSR_ACTION_SEND || kind == TSR_ACTION_EXCHANGE;
}

/// One message of a SEND, RECV or EXCHANGE.
struct Message {
  const Binding* binding;
  int peer;  ///< position in the group
  bool is_receive;
};
std::vector<Message> messages_of(const Action& action);

}  // namespace tessera::host
