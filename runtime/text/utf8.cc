// UTF-8 by RFC 3629: 0xxxxxxx, 110xxxxx 10xxxxxx, and so on. The number of ones at the head of the first byte is the
// length; the rest of the bits, six from each further byte, is the code point. A form that is longer than it needs to
// be is refused: two texts that look alike would have different tokens.

#include "text/utf8.h"

namespace tessera::host {
namespace {

constexpr char32_t kMinOfLength[] = {0, 0, 0x80, 0x800, 0x10000};  // by the number of bytes

uint8_t byte_at(std::string_view text, size_t i) {
  return static_cast<uint8_t>(text[i]);
}

size_t length_of(uint8_t first) {
  return first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
}

}  // namespace

std::optional<CodePoint> first_code_point(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const uint8_t first = byte_at(text, 0);
  const size_t length = length_of(first);
  if (length == 0 || length > text.size()) return std::nullopt;
  char32_t value = length == 1 ? first : first & (0x7f >> length);
  for (size_t i = 1; i < length; ++i) {
    if (byte_at(text, i) >> 6 != 2) return std::nullopt;
    value = value << 6 | (byte_at(text, i) & 0x3f);
  }
  const bool is_surrogate = value >= 0xd800 && value < 0xe000;
  if (value < kMinOfLength[length] || is_surrogate || value > 0x10ffff) return std::nullopt;
  return CodePoint{value, length};
}

size_t valid_utf8_bytes(std::string_view text) {
  size_t end = 0;
  while (const auto next = first_code_point(text.substr(end)))
    end += next->num_bytes;
  return end;
}

size_t invalid_utf8_bytes(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && !first_code_point(text.substr(end)))
    ++end;
  return end;
}

}  // namespace tessera::host
