// The alphabet in which files of byte-level tokenizers write bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera::host {

/// The bytes that `written` stands for; nothing if a character is not of the alphabet. "Ġthe" is " the".
std::optional<std::string> from_byte_level(std::string_view written);

}  // namespace tessera::host
