// SHA-256, for everything that ranks compare.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// 64 lower-case hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace tessera
