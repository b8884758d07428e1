// Work goes in pieces of about a megabyte (2^17 elements for sums), and between two of them each looks whether the
// group has failed: abort() must end everything within two seconds, and a copy of gigabytes takes longer.
#include "local-comm/memory.h"

#include <algorithm>
#include <cstring>

#include "tessera/canonical_sum.hpp"

namespace tessera::local {
namespace {

constexpr uint64_t kPieceBytes = 1 << 20;
constexpr uint64_t kPieceElements = 1 << 17;

}  // namespace

void copy(const Monitor& monitor, std::byte* destination, const std::byte* source, uint64_t num_bytes) {
  if (destination == source) return;
  for (uint64_t begin = 0; begin < num_bytes && !monitor.has_failed(); begin += kPieceBytes)
    std::memcpy(destination + begin, source + begin, std::min(kPieceBytes, num_bytes - begin));
}

void reduce(const Monitor& monitor, Meeting& meeting, int rank, uint64_t begin, uint64_t num_elements, std::byte* out) {
  const Collective& collective = meeting.post(rank);
  const uint64_t element_bytes = collective.element_bytes();
  const std::span<const void*> operands = meeting.operands_of(rank);
  for (uint64_t done = 0; done < num_elements && !monitor.has_failed(); done += kPieceElements) {
    for (size_t i = 0; i < operands.size(); ++i)
      operands[i] = meeting.posts[i]->send + (begin + done) * element_bytes;
    reduce_range(collective.dtype, collective.reduce, operands, out + done * element_bytes,
                 std::min(kPieceElements, num_elements - done));
  }
}

}  // namespace tessera::local
