// Heuristics over the first 8 KiB. Text in any language is valid UTF-8 with few control characters; small uint16 tokens
// have a zero, or a byte below 32, at every second place:
//
//     "The cat"                   54 68 65 20 63 61 74
//     tokens 464, 3797 (GPT-2)    d0 01 d5 0e

#include "data/looks_like_text.h"

#include <algorithm>
#include <cstdint>

namespace tessera::host {
namespace {

constexpr std::size_t kBytesLookedAt = 8192;
constexpr double kTextShare = 0.97;

bool is_between(uint8_t byte, uint8_t low, uint8_t high) {
  return low <= byte && byte <= high;
}

// Bytes of the UTF-8 character that starts there; 0: none does.
std::size_t character_bytes(std::span<const std::byte> rest) {
  const auto first = std::to_integer<uint8_t>(rest[0]);
  if (is_between(first, 0x20, 0x7e) || is_between(first, '\t', '\r')) return 1;
  const std::size_t num_bytes = is_between(first, 0xc2, 0xdf)   ? 2
                                : is_between(first, 0xe0, 0xef) ? 3
                                : is_between(first, 0xf0, 0xf4) ? 4
                                                                : 0;
  if (num_bytes == 0 || num_bytes > rest.size()) return 0;
  const bool is_whole = std::ranges::all_of(
      rest.subspan(1, num_bytes - 1), [](std::byte b) { return is_between(std::to_integer<uint8_t>(b), 0x80, 0xbf); });
  return is_whole ? num_bytes : 0;
}

}  // namespace

bool looks_binary(std::span<const std::byte> start) {
  const auto looked_at = start.first(std::min(start.size(), kBytesLookedAt));
  return std::find(looked_at.begin(), looked_at.end(), std::byte{0}) != looked_at.end();
}

bool looks_like_text(std::span<const std::byte> start) {
  const auto looked_at = start.first(std::min(start.size(), kBytesLookedAt));
  const auto num_zeros = static_cast<std::size_t>(std::ranges::count(looked_at, std::byte{0}));
  std::size_t num_text = 0;
  for (std::size_t i = 0; i < looked_at.size();) {
    const std::size_t num_bytes = character_bytes(looked_at.subspan(i));
    num_text += num_bytes;
    i += std::max<std::size_t>(num_bytes, 1);
  }
  const auto num_other = static_cast<double>(looked_at.size() - num_zeros);
  return num_text > 0 && num_zeros <= looked_at.size() / 4 && static_cast<double>(num_text) >= kTextShare * num_other;
}

}  // namespace tessera::host
