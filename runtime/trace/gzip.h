// gzip in memory.
#pragma once

#include <string>
#include <string_view>

namespace tessera::host {

std::string gzip(std::string_view text);
/// Whether it begins with the magic bytes of gzip.
bool is_gzip(std::string_view bytes);
/// The text of all gzip members, up to `max_bytes` of it. Sets `is_whole` when that is all of it and the checksums are
/// right; false: the bytes are truncated, damaged, hold more, or something that is not gzip follows.
std::string gunzip(std::string_view bytes, size_t max_bytes, bool& is_whole);

}  // namespace tessera::host
