// Copies are cut into chunks of a megabyte, and sums into chunks that stay in the nearest caches until they are in
// every result: in place the lines that are written are then there already. Each loop checks between two chunks whether
// the group has failed: abort() must take effect within two seconds, and a copy of gigabytes takes longer.
#include "local-comm/memory.h"

#include <algorithm>
#include <cstring>

#include "tessera/canonical_sum.hpp"

namespace tessera::local {
namespace {

constexpr uint64_t kChunkBytes = 1 << 20;
constexpr uint64_t kChunkElements = 1 << 12;

}  // namespace

void copy(const Monitor& monitor, std::byte* destination, const std::byte* source, uint64_t num_bytes) {
  if (destination == source) return;
  for (uint64_t begin = 0; begin < num_bytes && !monitor.has_failed(); begin += kChunkBytes)
    std::memcpy(destination + begin, source + begin, std::min(kChunkBytes, num_bytes - begin));
}

void reduce(const Monitor& monitor, PendingCollective& pending, int rank, uint64_t begin, uint64_t num_elements,
            std::span<std::byte* const> outs) {
  const Collective& collective = pending.post(rank);
  const uint64_t element_bytes = collective.element_bytes();
  const std::span<const void*> operands = pending.operands_of(rank);
  for (uint64_t done = 0; done < num_elements && !monitor.has_failed(); done += kChunkElements) {
    for (size_t i = 0; i < operands.size(); ++i)
      operands[i] = pending.posts[i]->send + (begin + done) * element_bytes;
    const uint64_t here = std::min(kChunkElements, num_elements - done);
    std::byte* const first = outs.front() + done * element_bytes;
    reduce_range(collective.dtype, collective.reduce, operands, first, here);
    for (std::byte* const out : outs.subspan(1))
      std::memcpy(out + done * element_bytes, first, here * element_bytes);
  }
}

}  // namespace tessera::local
