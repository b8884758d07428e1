// One file of tokens.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/read_only_file.h"

namespace tessera::host {

/// What a file was taken for.
struct TokenFormat {
  std::string name;          ///< "text, bytes are the tokens"
  uint64_t token_bytes = 1;  ///< 1: text; 2: little-endian uint16
  uint64_t data_begin = 0;   ///< byte of the file where the tokens start
  std::string doubt;         ///< why that may be a mistake, and what to do; empty: no doubt

  /// Whether files of both formats may be shards of one sequence.
  bool goes_with(const TokenFormat& other) const {
    return token_bytes == other.token_bytes && data_begin == other.data_begin;
  }
};

/// Throws UNSUPPORTED, naming the format, for a file that begins like one whose bytes are neither text nor tokens.
void refuse_other_formats(const std::string& path, std::span<const std::byte> begin);

/// An open file, recognized by its content:
///  - an llm.c file: header 20240520, version 1, uint16 tokens, exactly as many as the header says;
///  - raw uint16: a name that ends in .bin, or a zero byte near the start;
///  - any other file: text, bytes are the tokens.
/// Movable. Every const function is [any-thread].
class TokenFile {
 public:
  /// Throws INVALID_ARGUMENT or UNSUPPORTED, naming the file and what is wrong, and what ReadOnlyFile throws.
  explicit TokenFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const TokenFormat& format() const { return format_; }
  uint64_t num_tokens() const { return num_tokens_; }
  uint64_t num_bytes() const { return file_.num_bytes(); }
  /// out[i] = token offset + i, which the file must have. Throws DATA_LOSS for a file that was cut since.
  void read(uint64_t offset, std::span<int32_t> out) const;

 private:
  ReadOnlyFile file_;
  TokenFormat format_;
  uint64_t num_tokens_ = 0;
};

}  // namespace tessera::host
