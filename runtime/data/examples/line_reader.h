// The lines of a text file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/examples/byte_stream.h"

namespace tessera::host {

/// Lines of a file, plain or gzip, without their ends (\n or \r\n) and without a byte-order mark. [single-thread]
class LineReader {
 public:
  /// A line may have `max_bytes`, so that binary data is not read into memory as one line.
  LineReader(const std::string& path, std::size_t max_bytes) : stream_(path), max_bytes_(max_bytes) {}

  /// Moves to the next line; false at the end. Throws INVALID_ARGUMENT for a line that is too long, and what ByteStream
  /// throws.
  bool next();
  /// The current line, valid until next() is called.
  std::string_view line() const { return line_; }
  /// Its number, from 1 on.
  uint64_t number() const { return number_; }
  uint64_t num_bytes() const { return stream_.position(); }

 private:
  std::string_view rest() const { return {buffer_.data() + begin_, buffer_.size() - begin_}; }
  std::size_t find_end();
  bool fill();

  ByteStream stream_;
  std::size_t max_bytes_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // of the bytes not used yet
  std::string_view line_;
  uint64_t number_ = 0;
};

}  // namespace tessera::host
