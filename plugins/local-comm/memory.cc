// Copies are cut into chunks of a megabyte, and sums into chunks that stay in the nearest caches until they are in
// every result: in place the lines that are written are then there already. Elsewhere a large result is written past
// the caches, as memcpy does, since an ordinary store first reads its line: a reduce-scatter of two ranks would move a
// third more bytes. Each loop checks between two chunks whether the group has failed: abort() must take effect within
// two seconds, and a copy of gigabytes takes longer.
#include "local-comm/memory.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstring>

#include "tessera/canonical_sum.hpp"

namespace tessera::local {
namespace {

constexpr uint64_t kChunkBytes = 1 << 20;
constexpr uint64_t kChunkElements = 1 << 12;
constexpr uint64_t kMaxElementBytes = 8;
/// About what a core's own caches hold: of a smaller result the next action finds most there.
constexpr uint64_t kLargeBytes = 1 << 20;

/// Writes past the caches where the processor can; finish_writes() makes it visible to other threads.
void write_past_caches(std::byte* to, const std::byte* from, uint64_t num_bytes) {
#ifdef __SSE2__
  constexpr uint64_t kLine = 64, kWord = sizeof(__m128i);
  const uint64_t before = std::min<uint64_t>(num_bytes, -reinterpret_cast<uintptr_t>(to) % kLine);
  const uint64_t end = num_bytes - (num_bytes - before) % kLine;
  std::memcpy(to, from, before);
  for (uint64_t at = before; at < end; at += kWord)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
  std::memcpy(to + end, from + end, num_bytes - end);
#else
  std::memcpy(to, from, num_bytes);
#endif
}

void finish_writes() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

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
  const bool is_large = num_elements * element_bytes >= kLargeBytes;
  alignas(64) std::byte block[kChunkElements * kMaxElementBytes];
  for (uint64_t done = 0; done < num_elements && !monitor.has_failed(); done += kChunkElements) {
    for (size_t i = 0; i < operands.size(); ++i)
      operands[i] = pending.posts[i]->send + (begin + done) * element_bytes;
    const uint64_t here = std::min(kChunkElements, num_elements - done);
    std::byte* const first = outs.front() + done * element_bytes;
    const bool is_in_place = std::ranges::find(operands, static_cast<const void*>(first)) != operands.end();
    const bool goes_past = is_large && !is_in_place;
    std::byte* const sum = goes_past ? block : first;
    reduce_range(collective.dtype, collective.reduce, operands, sum, here);
    for (std::byte* const out : outs.subspan(goes_past ? 0 : 1)) {
      if (goes_past)
        write_past_caches(out + done * element_bytes, sum, here * element_bytes);
      else
        std::memcpy(out + done * element_bytes, sum, here * element_bytes);
    }
  }
  finish_writes();
}

}  // namespace tessera::local
