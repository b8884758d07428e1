// Tokens of files and folders as one sequence. Files are read in place, text folders are held in memory. What ranks
// compare is a hash of samples, since hashing gigabytes at every start would take longer than many runs.
//
//     shard      a.bin       b.bin           c.bin
//     tokens     0 ... 99    100 ... 249     250 ... 299       a read of 90 to 110 takes parts of a.bin and b.bin
//
// Shards after the first are opened for each read: that takes microseconds, and any number of them fits below the limit
// of open files (decision 0022).

#include "data/token_source.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/concat.h"
#include "base/sha256.h"
#include "data/file_list.h"
#include "data/text_folder.h"
#include "data/token_file.h"
#include "tessera/error.hpp"
#include "weights/sample_blocks.h"

namespace tessera::host {
namespace {

constexpr uint64_t kTokensReadAtOpen = uint64_t{1} << 24;
constexpr uint64_t kTokensPerRead = uint64_t{1} << 20;

void check_range(const TokenSource& source, uint64_t offset, std::size_t num_tokens) {
  if (offset <= source.num_tokens() && num_tokens <= source.num_tokens() - offset) return;
  throw Error(TSR_E_INVALID_ARGUMENT,
              concat("tokens ", offset, " to ", offset + num_tokens, " were requested, beyond ", source.description()));
}

// The first token outside the vocabulary.
std::optional<std::size_t> first_beyond(std::span<const int32_t> tokens, int64_t vocab) {
  int32_t largest = 0;
  for (const int32_t token : tokens)
    largest = std::max(largest, token);
  if (largest < vocab) return std::nullopt;
  return std::ranges::find_if(tokens, [vocab](int32_t token) { return token >= vocab; }) - tokens.begin();
}

[[noreturn]] void refuse_token(int32_t token, int64_t vocab, uint64_t position, const std::string& where,
                               const std::string& doubt) {
  throw Error(TSR_E_INVALID_ARGUMENT,
              concat(where, ": token ", token, " at position ", position, " is not in the model's vocabulary of ",
                     vocab, " tokens; ", doubt.empty() ? "use data made for this model" : doubt));
}

// An empty shard is what an interrupted download or job leaves.
void require_tokens(const TokenFile& file) {
  if (file.num_tokens() > 0) return;
  throw Error(TSR_E_INVALID_ARGUMENT,
              concat("the shard ", file.path(), " holds no token (", file.num_bytes(),
                     " bytes); was it cut? Make or download it again, or remove it to train on the others"));
}

// One file or more as one sequence. The first one stays open: most data is one file.
class FileTokens : public TokenSource {
 public:
  FileTokens(std::string path, const std::vector<std::string>& files, int64_t vocab)
      : path_(std::move(path)),
        vocab_(vocab),
        first_(files.front()),
        doubt_(first_.format().doubt),
        doubt_of_files_(files.size() > 1 ? doubt_of_pattern(path_, files) : "") {
    if (files.size() > 1) require_tokens(first_);
    shards_.push_back({files.front(), 0, first_.num_tokens()});
    for (const std::string& file : std::span(files).subspan(1))
      append(file);
  }

  uint64_t num_tokens() const override { return shards_.back().end; }
  bool is_text() const override { return first_.format().token_bytes == 1; }
  std::string doubt() const override { return doubt_.empty() ? doubt_of_files_ : doubt_; }

  void read(uint64_t offset, std::span<int32_t> out) const override {
    check_range(*this, offset, out.size());
    for (auto shard = std::ranges::upper_bound(shards_, offset, {}, &Shard::end); !out.empty(); ++shard) {
      const auto part = out.first(std::min<uint64_t>(out.size(), shard->end - offset));
      read_part(*shard, offset - shard->begin, part);
      offset += part.size();
      out = out.subspan(part.size());
    }
  }

  std::string description() const override {
    const std::string count = shards_.size() == 1 ? "" : concat(shards_.size(), " shards, each: ");
    return concat(path_, ": ", count, first_.format().name, " (", counted(num_tokens(), "token"), ")");
  }

 private:
  struct Shard {
    std::string path;
    uint64_t begin, end;  // its tokens in the sequence
  };

  void append(const std::string& path) {
    const TokenFile file(path);
    require_tokens(file);
    if (!file.format().goes_with(first_.format()))
      throw Error(TSR_E_INVALID_ARGUMENT,
                  concat(path, " (", file.format().name, ") has another format than ", first_.path(), " (",
                         first_.format().name, "); give shards of one format"));
    if (doubt_.empty()) doubt_ = file.format().doubt;
    shards_.push_back({path, num_tokens(), num_tokens() + file.num_tokens()});
  }

  void read_part(const Shard& shard, uint64_t offset, std::span<int32_t> out) const {
    if (&shard == &shards_.front()) {
      first_.read(offset, out);
    } else {
      const TokenFile file(shard.path);
      if (file.num_tokens() != shard.end - shard.begin)
        throw Error(TSR_E_DATA_LOSS,
                    concat(shard.path, " has ", file.num_tokens(), " tokens and had ", shard.end - shard.begin,
                           " when the run began; do not change data during a run"));
      file.read(offset, out);
    }
    if (const auto bad = first_beyond(out, vocab_))
      refuse_token(out[*bad], vocab_, offset + *bad, concat(shard.path, ": ", first_.format().name), doubt_);
  }

  std::string path_;
  int64_t vocab_;
  TokenFile first_;
  std::string doubt_;           // of the format of one of them
  std::string doubt_of_files_;  // of their names
  std::vector<Shard> shards_;
};

class FolderTokens : public TokenSource {
 public:
  FolderTokens(const std::string& path, FolderContents contents, int64_t vocab)
      : path_(path),
        vocab_(vocab),
        text_(read_text_folder(path, contents.files)),
        left_out_(std::move(contents.left_out)) {}

  uint64_t num_tokens() const override { return text_.bytes.size(); }
  bool is_text() const override { return true; }
  std::string doubt() const override { return ""; }

  void read(uint64_t offset, std::span<int32_t> out) const override {
    check_range(*this, offset, out.size());
    std::transform(text_.bytes.begin() + static_cast<std::ptrdiff_t>(offset),
                   text_.bytes.begin() + static_cast<std::ptrdiff_t>(offset + out.size()), out.begin(),
                   [](std::byte b) { return std::to_integer<int32_t>(b); });
    if (const auto bad = first_beyond(out, vocab_)) refuse_token(out[*bad], vocab_, offset + *bad, description(), "");
  }

  std::string description() const override {
    const std::string left_out = left_out_.empty()
                                     ? ""
                                     : concat("; ", left_out_.front(), left_out_.size() > 1 ? " and others" : "",
                                              " left out: a link to a folder or to nothing, or no file");
    return concat(path_, ": ", counted(text_.num_files, "text file"), " of a folder, bytes are the tokens (",
                  counted(num_tokens(), "token"), "; ", counted(text_.num_skipped, "binary file"), " skipped", left_out,
                  ")");
  }

 private:
  std::string path_;
  int64_t vocab_;
  TextFolder text_;
  std::vector<std::string> left_out_;
};

std::unique_ptr<TokenSource> open_any(const std::string& path, int64_t vocab) {
  std::error_code unknown;
  const auto status = std::filesystem::status(path, unknown);
  if (is_directory(status)) {
    FolderContents contents = contents_of(path);
    if (are_shards(path, contents)) return std::make_unique<FileTokens>(path, contents.files, vocab);
    return std::make_unique<FolderTokens>(path, std::move(contents), vocab);
  }
  if (status.type() == std::filesystem::file_type::not_found && is_pattern(path))
    return std::make_unique<FileTokens>(path, files_matching(path), vocab);
  return std::make_unique<FileTokens>(path, std::vector{path}, vocab);
}

}  // namespace

std::unique_ptr<TokenSource> open_tokens(const std::string& path, int64_t vocab) {
  std::unique_ptr<TokenSource> source = open_any(path, vocab);
  const bool all_fit = source->is_text() && vocab > 255;
  if (all_fit || source->num_tokens() > kTokensReadAtOpen) return source;
  std::vector<int32_t> tokens;
  for (uint64_t begin = 0; begin < source->num_tokens(); begin += kTokensPerRead) {
    tokens.resize(std::min(kTokensPerRead, source->num_tokens() - begin));
    source->read(begin, tokens);
  }
  return source;
}

std::string content_hash(const TokenSource& source) {
  const uint64_t num_tokens = source.num_tokens(), block_tokens = kSampledBlockBytes / sizeof(uint16_t);
  const bool is_whole = num_tokens <= kMaxWholeBytes / sizeof(uint16_t);
  const uint64_t most_blocks = is_whole ? num_tokens / block_tokens + 1 : kSampledBlocks;
  Sha256 hash;
  std::vector<int32_t> tokens;
  std::vector<uint16_t> packed;  // half the bytes to hash
  for (const uint64_t begin : sample_blocks(num_tokens, block_tokens, most_blocks)) {
    tokens.resize(std::min(block_tokens, num_tokens - begin));
    source.read(begin, tokens);
    packed.assign(tokens.begin(), tokens.end());
    hash.add(std::as_bytes(std::span(packed)));
  }
  return hash.hex();
}

}  // namespace tessera::host
