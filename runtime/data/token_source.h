// The tokens of `--data`: one long sequence, read by position.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tessera {

/// A sequence of tokens. [any-thread]
class TokenSource {
 public:
  virtual ~TokenSource() = default;

  virtual uint64_t num_tokens() const = 0;
  /// out[i] = token offset + i. Throws INVALID_ARGUMENT for a range beyond the end, DATA_LOSS for a file that was cut
  /// since it was opened.
  virtual void read(uint64_t offset, std::span<int32_t> out) const = 0;
  /// What the data was taken for, for the log: "corpus.txt: text, bytes are the tokens (1003854 tokens)".
  virtual std::string description() const = 0;
};

/// Opens a file or folder, recognised by content:
///  - a folder: its text files, whose bytes are the tokens (see text_folder.h);
///  - an llm.c file: header 20240520, version 1, uint16 tokens, exactly as many as the header says;
///  - raw uint16: a name that ends in .bin, or a zero byte near the start;
///  - any other file: text, bytes are the tokens.
/// All tokens are checked once against `vocab`. Throws INVALID_ARGUMENT naming the file and what is wrong (for a token
/// beyond the vocabulary its value and position), UNSUPPORTED for a format that is known but not read, NOT_FOUND.
std::unique_ptr<TokenSource> open_tokens(const std::string& path, int64_t vocab);

}  // namespace tessera
