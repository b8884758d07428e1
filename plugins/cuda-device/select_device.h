// Which GPU a rank computes on.
#pragma once

#include <cstdint>

namespace tessera::cuda {

/// The GPU of the rank with this local rank: its own, or with `share` one of those there are, in turn. Throws
/// UNAVAILABLE, in a sentence that says what to do, where there is no driver, no GPU, or fewer GPUs than local ranks.
/// [control-thread]
int select_device(uint32_t local_rank, bool share);

}  // namespace tessera::cuda
