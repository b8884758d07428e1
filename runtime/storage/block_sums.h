// Checksums of what a file store holds: crc32c of every block, kept in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tessera/ranges.hpp"

namespace tessera::host {

/// The unit of a file store: offsets are its multiples, each has one checksum, and O_DIRECT takes it everywhere.
inline constexpr uint64_t kBlockBytes = 4096;

/// `num_bytes` rounded up to whole blocks.
constexpr uint64_t whole_blocks(uint64_t num_bytes) {
  return round_up<uint64_t>(num_bytes, kBlockBytes);
}

/// The CRC-32C (Castagnoli) of iSCSI and ext4: "123456789" has 0xE3069283. [any-thread]
uint32_t crc32c(std::span<const std::byte> bytes);

/// One crc32c a block: 4 bytes for each 4096, 0.1 %. Threads may work on disjoint blocks at the same time.
class BlockSums {
 public:
  /// Of `num_bytes` zeros, rounded up to whole blocks: what a new file holds.
  explicit BlockSums(uint64_t num_bytes);

  /// The blocks from `offset` on hold `bytes`. Both are multiples of kBlockBytes.
  void record(uint64_t offset, std::span<const std::byte> bytes);
  /// The offset of the first block of `bytes` that is not what was recorded. Both are multiples of kBlockBytes.
  std::optional<uint64_t> first_difference(uint64_t offset, std::span<const std::byte> bytes) const;

 private:
  std::vector<uint32_t> sums_;
};

}  // namespace tessera::host
