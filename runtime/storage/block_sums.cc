// The sums come from ISA-L, which picks the processor's crc32 and carry-less multiplication at run time.

#include "storage/block_sums.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>

namespace tessera::host {

uint32_t crc32c(std::span<const std::byte> bytes) {
  constexpr size_t kMaxPart = size_t{1} << 30;  // the library takes an int
  uint32_t sum = ~0u;
  for (size_t done = 0; done < bytes.size(); done += kMaxPart) {
    const auto part = bytes.subspan(done, std::min(kMaxPart, bytes.size() - done));
    // The function only reads, but takes a pointer to what is not const.
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(part.data()));
    sum = ::crc32_iscsi(data, static_cast<int>(part.size()), sum);
  }
  return ~sum;
}

BlockSums::BlockSums(uint64_t num_bytes)
    : sums_(whole_blocks(num_bytes) / kBlockBytes, crc32c(std::array<std::byte, kBlockBytes>{})) {}

void BlockSums::record(uint64_t offset, std::span<const std::byte> bytes) {
  for (uint64_t done = 0; done < bytes.size(); done += kBlockBytes)
    sums_[(offset + done) / kBlockBytes] = crc32c(bytes.subspan(done, kBlockBytes));
}

std::optional<uint64_t> BlockSums::first_difference(uint64_t offset, std::span<const std::byte> bytes) const {
  for (uint64_t done = 0; done < bytes.size(); done += kBlockBytes)
    if (sums_[(offset + done) / kBlockBytes] != crc32c(bytes.subspan(done, kBlockBytes))) return offset + done;
  return std::nullopt;
}

}  // namespace tessera::host
