// Text to tokens and back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer_files.h"

namespace tessera::host {

/// GPT-2's byte-level BPE. decode(encode(text)) is `text`, also where it is not UTF-8. [control-thread]
class Tokenizer {
 public:
  /// Reads a file or folder, as read_tokenizer_files says.
  explicit Tokenizer(const std::string& path) : Tokenizer(read_tokenizer_files(path)) {}
  explicit Tokenizer(TokenizerData data);

  /// One more than the largest token.
  int64_t num_tokens() const { return static_cast<int64_t>(data_.tokens.size()); }
  const std::string& source() const { return data_.source; }

  /// Special tokens are found in the text, the longest of those that begin first.
  std::vector<int32_t> encode(std::string_view text) const;
  /// The bytes of a token. Throws INVALID_ARGUMENT for one that does not exist.
  const std::string& bytes_of(int32_t token) const;
  /// Numbers below num_tokens() may be left out by the file: they have no bytes.
  bool has(int32_t token) const { return !data_.tokens[static_cast<size_t>(token)].empty(); }

 private:
  TokenizerData data_;
  PreTokenizer words_;
  Bpe bpe_;
};

}  // namespace tessera::host
