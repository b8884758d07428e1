// The ranges of a home, in pieces that the team shares out.
#pragma once

#include <vector>

#include "tessera/device.h"

namespace tessera::cpu {

/// Elements of a piece: small enough to stay in a core's cache, large enough to be worth a call.
inline constexpr uint64_t kChunkElements = 16384;

/// op.ranges cut into pieces, each with its range's weight decay. INVALID_ARGUMENT for a range beyond
/// op.dims[ELEMENTS].
std::vector<tsr_op_range> chunks_of(const tsr_op& op);

}  // namespace tessera::cpu
