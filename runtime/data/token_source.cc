#include "data/token_source.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>
#include <vector>

#include "data/text_folder.h"
#include "model/read_only_file.h"
#include "observe/text.h"
#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr int32_t kLlmcMagic = 20240520;
constexpr int32_t kLlmcMagic32 = 20240801;  // the variant with uint32 tokens
constexpr int32_t kLlmcVersion = 1;
constexpr uint64_t kLlmcHeaderBytes = 256 * sizeof(int32_t);
constexpr std::size_t kStartBytes = 8192;  // enough to recognise a format
constexpr uint64_t kTokensPerScan = uint64_t{1} << 20;

void check_range(const TokenSource& source, uint64_t offset, std::size_t num_tokens) {
  if (offset <= source.num_tokens() && num_tokens <= source.num_tokens() - offset) return;
  throw Error(TSR_E_INVALID_ARGUMENT,
              concat("tokens ", offset, " to ", offset + num_tokens, " were asked for, beyond ", source.description()));
}

// Little-endian unsigned integers of type T in a file, from byte `data_begin` to its end.
template <class T>
class FileTokens : public TokenSource {
 public:
  FileTokens(ReadOnlyFile file, uint64_t data_begin, const char* format)
      : file_(std::move(file)),
        data_begin_(data_begin),
        num_tokens_((file_.num_bytes() - data_begin) / sizeof(T)),
        format_(format) {}

  uint64_t num_tokens() const override { return num_tokens_; }

  void read(uint64_t offset, std::span<int32_t> out) const override {
    check_range(*this, offset, out.size());
    std::vector<T> elements(out.size());
    file_.read(data_begin_ + offset * sizeof(T), std::as_writable_bytes(std::span(elements)));
    std::copy(elements.begin(), elements.end(), out.begin());
  }

  std::string description() const override {
    return concat(file_.path(), ": ", format_, " (", num_tokens_, " tokens)");
  }

 private:
  ReadOnlyFile file_;
  uint64_t data_begin_;
  uint64_t num_tokens_;
  const char* format_;
};

class FolderTokens : public TokenSource {
 public:
  explicit FolderTokens(const std::string& path) : path_(path), text_(read_text_folder(path)) {}

  uint64_t num_tokens() const override { return text_.bytes.size(); }

  void read(uint64_t offset, std::span<int32_t> out) const override {
    check_range(*this, offset, out.size());
    std::transform(text_.bytes.begin() + static_cast<std::ptrdiff_t>(offset),
                   text_.bytes.begin() + static_cast<std::ptrdiff_t>(offset + out.size()), out.begin(),
                   [](std::byte b) { return std::to_integer<int32_t>(b); });
  }

  std::string description() const override {
    return concat(path_, ": ", text_.num_files, " text files of a folder, bytes are the tokens (", num_tokens(),
                  " tokens; ", text_.num_skipped, " binary files skipped)");
  }

 private:
  std::string path_;
  TextFolder text_;
};

std::unique_ptr<TokenSource> open_llmc(ReadOnlyFile file, std::span<const std::byte> start) {
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
  return std::make_unique<FileTokens<uint16_t>>(std::move(file), kLlmcHeaderBytes, "llm.c file of uint16 tokens");
}

std::unique_ptr<TokenSource> recognise(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return std::make_unique<FolderTokens>(path);
  ReadOnlyFile file(path);
  std::vector<std::byte> start(std::min<uint64_t>(file.num_bytes(), kStartBytes));
  file.read(0, start);
  int32_t magic = 0;
  if (start.size() >= 3 * sizeof magic) std::memcpy(&magic, start.data(), sizeof magic);
  if (magic == kLlmcMagic) return open_llmc(std::move(file), start);
  if (magic == kLlmcMagic32) {
    throw Error(TSR_E_UNSUPPORTED, concat(path, " is an llm.c file of uint32 tokens (header ", magic,
                                          "); files of uint16 tokens (header ", kLlmcMagic, ") are supported"));
  }
  if (!path.ends_with(".bin") && !looks_binary(start)) {
    return std::make_unique<FileTokens<uint8_t>>(std::move(file), 0, "text, bytes are the tokens");
  }
  if (file.num_bytes() % sizeof(uint16_t) != 0) {
    throw Error(TSR_E_INVALID_ARGUMENT, concat(path, " is no text, so it should hold uint16 tokens, but it has ",
                                               file.num_bytes(), " bytes, an odd number"));
  }
  return std::make_unique<FileTokens<uint16_t>>(std::move(file), 0, "raw uint16 tokens without a header");
}

void check_vocabulary(const TokenSource& source, int64_t vocab) {
  std::vector<int32_t> tokens(std::min(source.num_tokens(), kTokensPerScan));
  for (uint64_t begin = 0; begin < source.num_tokens(); begin += kTokensPerScan) {
    const auto part = std::span(tokens).first(std::min(kTokensPerScan, source.num_tokens() - begin));
    source.read(begin, part);
    int32_t largest = 0;
    for (const int32_t token : part)
      largest = std::max(largest, token);
    if (largest < vocab) continue;
    const auto bad = std::find_if(part.begin(), part.end(), [vocab](int32_t token) { return token >= vocab; });
    throw Error(TSR_E_INVALID_ARGUMENT,
                concat(source.description(), ": token ", *bad, " at position ", begin + (bad - part.begin()),
                       " is not in the model's vocabulary of ", vocab, " tokens; use data made for this model"));
  }
}

}  // namespace

std::unique_ptr<TokenSource> open_tokens(const std::string& path, int64_t vocab) {
  std::unique_ptr<TokenSource> source = recognise(path);
  if (vocab <= std::numeric_limits<uint16_t>::max()) check_vocabulary(*source, vocab);
  return source;
}

}  // namespace tessera
