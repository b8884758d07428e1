// UTF-8, as far as tokenizers need it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera::host {

/// A code point and its number of bytes.
struct CodePoint {
  char32_t value = 0;
  size_t num_bytes = 0;
};

/// The code point that `text` begins with; nothing if its first bytes are not UTF-8 (overlong forms, surrogates and
/// what is beyond U+10FFFF are not).
std::optional<CodePoint> first_code_point(std::string_view text);

/// Bytes of the longest beginning that is UTF-8.
size_t valid_utf8_bytes(std::string_view text);
/// Bytes at the beginning that are not UTF-8, up to the next code point.
size_t invalid_utf8_bytes(std::string_view text);

}  // namespace tessera::host
