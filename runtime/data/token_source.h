// The tokens of `--data`: one long sequence, read by position.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tessera::host {

/// A sequence of tokens. [any-thread]
class TokenSource {
 public:
  virtual ~TokenSource() = default;

  virtual uint64_t num_tokens() const = 0;
  /// out[i] = token offset + i. Throws INVALID_ARGUMENT for a range beyond the end and for a token beyond the
  /// vocabulary (naming file, position and token), DATA_LOSS for a file that changed since it was opened.
  virtual void read(uint64_t offset, std::span<int32_t> out) const = 0;
  /// What the data was taken for, for the log: "corpus.txt: text, bytes are the tokens (1003854 tokens)".
  virtual std::string description() const = 0;
  /// The tokens are bytes of text.
  virtual bool is_text() const = 0;
  /// Why the data may not be what its user meant, and what to do; empty when nothing indicates that.
  virtual std::string doubt() const = 0;
};

/// Opens
///  - a file: an llm.c file, raw uint16 tokens, or text, by its content (see token_file.h);
///  - a folder of .bin files, or a shell's pattern: such files of one format, sorted by path, as one sequence. Files
///    after the first are open only while their tokens are read;
///  - any other folder: its text files, whose bytes are the tokens (see text_folder.h).
/// Every token is checked against `vocab` when it is read. Data of up to 16 Mi tokens is read once here, so that most
/// errors are reported before anything starts. Throws INVALID_ARGUMENT naming the file and what is wrong, UNSUPPORTED
/// for a format that is known but not read, NOT_FOUND.
std::unique_ptr<TokenSource> open_tokens(const std::string& path, int64_t vocab);

/// SHA-256 of the tokens, or, above 32 Mi of them, of 256 blocks spread evenly over them: what ranks compare.
std::string content_hash(const TokenSource& source);

}  // namespace tessera::host
