// Token files as tessera writes them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/output_file.h"

namespace tessera::host {

/// Largest number of tokens of a vocabulary whose tokens fit.
inline constexpr int64_t kMaxTokensOfAFile = int64_t{1} << 16;

/// Writes an llm.c file: header and uint16 tokens. Throws what write_output() throws, and INVALID_ARGUMENT for more
/// tokens than the header can count.
void write_token_file(const Output& output, std::span<const uint16_t> tokens);

/// Whether a file that begins like this was written by write_token_file.
bool begins_like_token_file(std::string_view begin);

}  // namespace tessera::host
