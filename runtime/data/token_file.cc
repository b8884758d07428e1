#include "data/token_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "data/looks_like_text.h"
#include "observe/text.h"
#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr int32_t kLlmcMagic = 20240520;
constexpr int32_t kLlmcMagic32 = 20240801;  // the variant with uint32 tokens
constexpr int32_t kLlmcVersion = 1;
constexpr uint64_t kLlmcHeaderBytes = 256 * sizeof(int32_t);
constexpr std::size_t kStartBytes = 8192;  // enough to recognise a format

TokenFormat llmc_format(const ReadOnlyFile& file, std::span<const std::byte> start) {
  std::array<int32_t, 3> header{};  // magic, version, number of tokens; the rest is zero
  std::memcpy(header.data(), start.data(), sizeof header);
  if (header[1] != kLlmcVersion) {
    throw Error(TSR_E_UNSUPPORTED, concat(file.path(), " is an llm.c token file of version ", header[1], "; version ",
                                          kLlmcVersion, " is supported"));
  }
  const uint64_t num_tokens = static_cast<uint32_t>(header[2]);
  const uint64_t num_bytes = kLlmcHeaderBytes + num_tokens * sizeof(uint16_t);
  if (file.num_bytes() != num_bytes) {
    throw Error(TSR_E_INVALID_ARGUMENT,
                concat(file.path(), " has ", file.num_bytes(), " bytes, but its llm.c header of ", num_tokens,
                       " tokens needs ", num_bytes, "; was it cut?"));
  }
  return {"llm.c file of uint16 tokens", sizeof(uint16_t), kLlmcHeaderBytes, ""};
}

// Text that is read as uint16 gives tokens, but not those of the text.
std::string doubt_of(const std::string& path, bool is_named_bin, std::span<const std::byte> start) {
  if (!looks_like_text(start)) return "";
  const auto zero = std::ranges::find(start, std::byte{0});
  return concat(path, " looks like text, but each two of its bytes are read as one uint16 token, as it ",
                is_named_bin ? "is named .bin; rename it to .txt"
                             : concat("has a zero byte at position ", zero - start.begin(), "; take zero bytes out"),
                " to train on its bytes");
}

TokenFormat recognise(const ReadOnlyFile& file) {
  std::vector<std::byte> start(std::min<uint64_t>(file.num_bytes(), kStartBytes));
  file.read(0, start);
  int32_t magic = 0;
  if (start.size() >= 3 * sizeof magic) std::memcpy(&magic, start.data(), sizeof magic);
  if (magic == kLlmcMagic) return llmc_format(file, start);
  if (magic == kLlmcMagic32) {
    throw Error(TSR_E_UNSUPPORTED, concat(file.path(), " is an llm.c file of uint32 tokens (header ", magic,
                                          "); files of uint16 tokens (header ", kLlmcMagic, ") are supported"));
  }
  const bool is_named_bin = file.path().ends_with(".bin");
  if (!is_named_bin && !looks_binary(start)) return {"text, bytes are the tokens", 1, 0, ""};
  const std::string doubt = doubt_of(file.path(), is_named_bin, start);
  if (file.num_bytes() % sizeof(uint16_t) != 0) {
    throw Error(TSR_E_INVALID_ARGUMENT,
                concat(file.path(), " has ", file.num_bytes(),
                       " bytes, an odd number, so it does not hold uint16 tokens", doubt.empty() ? "" : "; " + doubt));
  }
  return {"raw uint16 tokens without a header", sizeof(uint16_t), 0, doubt};
}

template <class T>
void read_elements(const ReadOnlyFile& file, uint64_t position, std::span<int32_t> out) {
  std::vector<T> elements(out.size());
  file.read(position, std::as_writable_bytes(std::span(elements)));
  std::copy(elements.begin(), elements.end(), out.begin());
}

}  // namespace

TokenFile::TokenFile(const std::string& path)
    : file_(path),
      format_(recognise(file_)),
      num_tokens_((file_.num_bytes() - format_.data_begin) / format_.token_bytes) {}

void TokenFile::read(uint64_t offset, std::span<int32_t> out) const {
  const uint64_t position = format_.data_begin + offset * format_.token_bytes;
  if (format_.token_bytes == 1) {
    read_elements<uint8_t>(file_, position, out);
  } else {
    read_elements<uint16_t>(file_, position, out);
  }
}

}  // namespace tessera
