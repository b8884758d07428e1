// The header is that of llm.c (256 int32: magic, version, number of tokens) and, in an int32 that llm.c leaves zero
// and does not read, a mark, by which a later run knows that it may replace the file.

#include "data/token_writer.h"

#include <array>
#include <cstring>
#include <limits>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr int32_t kMagic = 20240520, kVersion = 1;
constexpr int32_t kMark = 0x31525354;  // "TSR1" in the file
constexpr size_t kMarkPlace = 3;

using Header = std::array<int32_t, 256>;

std::string_view bytes_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void write_token_file(const Output& output, std::span<const uint16_t> tokens) {
  if (tokens.size() > std::numeric_limits<uint32_t>::max())
    throw Error(TSR_E_INVALID_ARGUMENT, concat(tokens.size(), " tokens are too many for one file of ", output.path,
                                               "'s format, which counts in 32 bits; cut the text into several"));
  Header header{};
  header[0] = kMagic;
  header[1] = kVersion;
  header[2] = static_cast<int32_t>(static_cast<uint32_t>(tokens.size()));
  header[kMarkPlace] = kMark;
  write_output(output, {bytes_of(std::as_bytes(std::span(header))), bytes_of(std::as_bytes(tokens))});
}

bool begins_like_token_file(std::string_view begin) {
  std::array<int32_t, 4> header{};
  if (begin.size() < sizeof header) return false;
  std::memcpy(header.data(), begin.data(), sizeof header);
  return header[0] == kMagic && header[1] == kVersion && header[3] == kMark;
}

}  // namespace tessera::host
