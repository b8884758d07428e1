// Orders that seed and epoch decide, without a table. Part of the contract: a later version continues a run in its
// order.
#pragma once

#include <cstdint>

namespace tessera::host {

/// Element `i` of a permutation of 0, ..., num - 1 that seed and epoch determine; takes no memory. 0 <= i < num.
/// [any-thread]
uint64_t shuffled(uint64_t seed, uint64_t epoch, uint64_t num, uint64_t i);
/// A number below `num`, at least 1, that seed and epoch determine. [any-thread]
uint64_t random_offset(uint64_t seed, uint64_t epoch, uint64_t num);

}  // namespace tessera::host
