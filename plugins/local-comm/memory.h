// The loops of local-comm over the ranks' memory.
#pragma once

#include "local-comm/meeting.h"

namespace tessera::local {

// Work on the ranks' memory, in pieces, so that it ends soon after the group has failed; the result is then undefined.
// A source equal to its destination is left alone.

void copy(const Monitor& monitor, std::byte* destination, const std::byte* source, uint64_t num_bytes);

/// The canonical reduction of [begin, begin + num_elements) of every rank's send, into `out`; done by `rank`.
void reduce(const Monitor& monitor, Meeting& meeting, int rank, uint64_t begin, uint64_t num_elements, std::byte* out);

}  // namespace tessera::local
