// The counter-based random generator of initial values: any element alone, on any machine, the same bits.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace tessera::host {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): four words for a counter and
/// key.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// out[i] = standard normal number `offset + i` of the stream (seed, name). A number depends on seed, name and index
/// only, never on how a range is cut. The key is the seed; the counter is index / 4 and the FNV-1a hash of the name.
/// Pure integer and IEEE double arithmetic (no libm), so all machines agree. The largest magnitude is 6.7.
/// [any-thread]
void fill_normal(uint64_t seed, std::string_view name, uint64_t offset, std::span<float> out);

}  // namespace tessera::host
