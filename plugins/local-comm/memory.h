// Copies and reductions over the ranks' memory.
#pragma once

#include "local-comm/collective_rendezvous.h"

namespace tessera::local {

// Both work in chunks, so that they end soon after the group has failed; the result is then undefined. A copy onto
// itself does nothing.

void copy(const Monitor& monitor, std::byte* destination, const std::byte* source, uint64_t num_bytes);

/// The canonical reduction of [begin, begin + num_elements) of every rank's send, done by `rank`, into each of `outs`;
/// these are operands of the same range, or overlap none.
void reduce(const Monitor& monitor, PendingCollective& pending, int rank, uint64_t begin, uint64_t num_elements,
            std::span<std::byte* const> outs);

}  // namespace tessera::local
