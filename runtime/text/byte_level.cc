// GPT-2's bytes_to_unicode: JSON cannot hold bytes, so each byte is a visible character. Those of Latin-1 that are
// visible are themselves (! to ~, U+00A1 to U+00AC, U+00AE to U+00FF); the other 68, in ascending order, are U+0100,
// U+0101, ...: a space, byte 32, is U+0120.

#include "text/byte_level.h"

#include <array>

#include "text/utf8.h"

namespace tessera::host {
namespace {

constexpr int kNumCharacters = 256 + 68;

bool is_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/// By character, the byte; -1: none.
std::array<int, kNumCharacters> make_bytes() {
  std::array<int, kNumCharacters> bytes;
  bytes.fill(-1);
  int next = 256;
  for (int byte = 0; byte < 256; ++byte)
    bytes[static_cast<size_t>(is_itself(byte) ? byte : next++)] = byte;
  return bytes;
}

}  // namespace

std::optional<std::string> from_byte_level(std::string_view written) {
  static const std::array<int, kNumCharacters> bytes = make_bytes();
  std::string result;
  while (!written.empty()) {
    const auto next = first_code_point(written);
    if (!next || next->value >= kNumCharacters || bytes[next->value] < 0) return std::nullopt;
    result += static_cast<char>(bytes[next->value]);
    written.remove_prefix(next->num_bytes);
  }
  return result;
}

}  // namespace tessera::host
