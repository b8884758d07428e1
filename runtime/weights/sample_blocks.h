// Samples of large files: the blocks that are hashed instead of the whole.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::host {

/// Up to this many bytes are hashed whole.
inline constexpr uint64_t kMaxWholeBytes = uint64_t{64} << 20;
/// Above that, this many blocks of this many bytes.
inline constexpr uint64_t kSampledBlocks = 256;
inline constexpr uint64_t kSampledBlockBytes = uint64_t{64} << 10;

/// Where `num_blocks` >= 2 blocks of `block` units begin, spread evenly over `total` units, first and last units
/// included. When so many blocks would cover everything: consecutive blocks, of which the last may end past `total`.
inline std::vector<uint64_t> sample_blocks(uint64_t total, uint64_t block, uint64_t num_blocks) {
  std::vector<uint64_t> begins;
  if (total / block < num_blocks) {
    for (uint64_t begin = 0; begin < total; begin += block)
      begins.push_back(begin);
    return begins;
  }
  const uint64_t last = total - block, distance = last / (num_blocks - 1);
  for (uint64_t i = 0; i + 1 < num_blocks; ++i)
    begins.push_back(i * distance);
  begins.push_back(last);
  return begins;
}

}  // namespace tessera::host
