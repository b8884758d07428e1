// Recognizes token files. Nothing but the name and the first 8 KiB decides, in this order: the header of llm.c, formats
// that are refused (NumPy, Parquet, archives), the name .bin or a zero byte (uint16), else text.
//
//     llm.c      int32 20240520 | int32 1 | int32 number of tokens | rest of 1024 bytes | uint16 tokens
//     raw        uint16 tokens
//     text       bytes, each of which is a token
//
// All numbers are little-endian. Wrong guesses train on garbage without an error, so what looks like text but is read
// as uint16 is kept as a doubt that becomes a warning, or the end of the error when a token is outside the vocabulary.

#include "data/token_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/concat.h"
#include "data/looks_like_text.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr int32_t kLlmcMagic = 20240520;
constexpr int32_t kLlmcMagic32 = 20240801;  // the variant with uint32 tokens
constexpr int32_t kLlmcVersion = 1;
constexpr uint64_t kLlmcHeaderBytes = 256 * sizeof(int32_t);
constexpr std::size_t kStartBytes = 8192;  // enough to recognize a format

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
                       " tokens needs ", num_bytes,
                       file.num_bytes() < num_bytes
                           ? "; was it cut?"
                           : "; it continues beyond its tokens, so write it again with their number in the header"));
  }
  return {"llm.c file of uint16 tokens", sizeof(uint16_t), kLlmcHeaderBytes, ""};
}

// Text read as uint16 gives tokens too, but not those of the text.
std::string doubt_of(const std::string& path, bool is_named_bin, std::span<const std::byte> start) {
  if (!looks_like_text(start)) return "";
  const auto zero = std::ranges::find(start, std::byte{0});
  return concat(path, " looks like text, but each two of its bytes are read as one uint16 token, as it ",
                is_named_bin ? "is named .bin; rename it to .txt"
                             : concat("has a zero byte at position ", zero - start.begin(), "; remove zero bytes"),
                " to train on its bytes");
}

/// Integers of 32 or 64 bits have a zero in every second uint16, and no tokens do.
void refuse_wide_tokens(const std::string& path, std::span<const std::byte> start) {
  constexpr std::size_t kEnough = 16;
  std::vector<uint16_t> tokens(start.size() / sizeof(uint16_t));
  if (tokens.size() < kEnough) return;
  std::memcpy(tokens.data(), start.data(), tokens.size() * sizeof(uint16_t));
  bool is_wide = true;
  std::size_t num_set = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    num_set += tokens[i] != 0;
    is_wide = is_wide && (i % 2 == 0 || tokens[i] == 0);
  }
  if (is_wide && num_set * kEnough >= tokens.size())
    throw Error(TSR_E_UNSUPPORTED,
                concat(path, " looks like integers of 32 or 64 bits: every second uint16 in it is 0; ",
                       "write uint16 tokens: in NumPy tokens.astype('uint16').tofile('data.bin')"));
}

TokenFormat recognize(const ReadOnlyFile& file) {
  std::vector<std::byte> start(std::min<uint64_t>(file.num_bytes(), kStartBytes));
  file.read(0, start);
  int32_t magic = 0;
  if (start.size() >= 3 * sizeof magic) std::memcpy(&magic, start.data(), sizeof magic);
  if (magic == kLlmcMagic) return llmc_format(file, start);
  refuse_other_formats(file.path(), start);
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
  refuse_wide_tokens(file.path(), start);
  return {"raw uint16 tokens without a header", sizeof(uint16_t), 0, doubt};
}

template <class T>
void read_elements(const ReadOnlyFile& file, uint64_t position, std::span<int32_t> out) {
  std::vector<T> elements(out.size());
  file.read(position, std::as_writable_bytes(std::span(elements)));
  std::copy(elements.begin(), elements.end(), out.begin());
}

}  // namespace

void refuse_other_formats(const std::string& path, std::span<const std::byte> start) {
  using namespace std::string_view_literals;
  constexpr std::pair<std::string_view, std::string_view> kFormats[] = {{"\x93NUMPY"sv, "a NumPy file"},
                                                                        {"PK\x03\x04"sv, "a ZIP archive"},
                                                                        {"\x1f\x8b"sv, "compressed with gzip"},
                                                                        {"\x28\xb5\x2f\xfd"sv, "compressed with zstd"},
                                                                        {"\xfd\x37zXZ"sv, "compressed with xz"},
                                                                        {"BZh91AY&SY"sv, "compressed with bzip2"},
                                                                        {"PAR1"sv, "a Parquet file"},
                                                                        {"ARROW1"sv, "an Arrow file"}};
  constexpr std::string_view kUtf16[] = {"\xff\xfe"sv, "\xfe\xff"sv};
  const std::string_view bytes(reinterpret_cast<const char*>(start.data()), start.size());
  // As a token the mark is 65279 or 65534, beyond any vocabulary of 16 bits in use.
  for (const std::string_view mark : kUtf16)
    if (bytes.starts_with(mark) && !path.ends_with(".bin"))
      throw Error(TSR_E_UNSUPPORTED, concat(path, " is text in UTF-16; save it as UTF-8"));
  for (const auto& [begin, what] : kFormats)
    if (bytes.starts_with(begin))
      throw Error(TSR_E_UNSUPPORTED, concat(path, " is ", what, "; write plain text, or raw uint16 tokens: in NumPy ",
                                            "tokens.astype('uint16').tofile('data.bin')"));
}

TokenFile::TokenFile(const std::string& path)
    : file_(path),
      format_(recognize(file_)),
      num_tokens_((file_.num_bytes() - format_.data_begin) / format_.token_bytes) {}

void TokenFile::read(uint64_t offset, std::span<int32_t> out) const {
  const uint64_t position = format_.data_begin + offset * format_.token_bytes;
  if (format_.token_bytes == 1) {
    read_elements<uint8_t>(file_, position, out);
  } else {
    read_elements<uint16_t>(file_, position, out);
  }
}

}  // namespace tessera::host
