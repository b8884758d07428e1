// Tells text from other bytes by the start of a file.
#pragma once

#include <cstddef>
#include <span>

namespace tessera::host {

/// Whether the bytes, the start of a file, look binary: a zero byte among the first 8192.
bool looks_binary(std::span<const std::byte> start);

/// Whether nearly all of the bytes, the start of a file, are text: printable ASCII, white space or UTF-8; up to a
/// quarter may be zero bytes. Tokens in uint16 are not: the high byte of a small one is below 32, or zero.
bool looks_like_text(std::span<const std::byte> start);

}  // namespace tessera::host
