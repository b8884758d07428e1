// A file read from start to end, plain or compressed with gzip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/read_only_file.h"

struct z_stream_s;

namespace tessera::host {

/// The content of a file in order. Its first bytes (1f 8b) decide whether it is compressed, not its name. Decompresses
/// only what is read, so a small file cannot fill the memory. [single-thread]
class ByteStream {
 public:
  /// Throws what ReadOnlyFile throws.
  explicit ByteStream(const std::string& path);
  ByteStream(const ByteStream&) = delete;
  ~ByteStream();

  const std::string& path() const { return file_.path(); }
  bool is_compressed() const { return inflate_ != nullptr; }
  /// Bytes of the content read so far.
  uint64_t position() const { return position_; }

  /// Fills `out`; returns how many bytes there were, which are fewer only at the end of the content. Throws
  /// INVALID_ARGUMENT naming the byte of the file for gzip data that is cut or damaged, DATA_LOSS for a file that is
  /// cut while it is read.
  std::size_t read(std::span<std::byte> out);

 private:
  std::size_t read_plain(std::span<std::byte> out);
  std::size_t read_compressed(std::span<std::byte> out);
  void refill();
  void end_member();
  [[noreturn]] void refuse(const std::string& what) const;

  ReadOnlyFile file_;
  uint64_t position_ = 0;
  uint64_t file_position_ = 0;      // end of what was read from the file
  std::vector<std::byte> buffer_;   // compressed bytes read from the file
  bool is_between_members_ = true;  // of a gzip file, which may hold several one after the other
  std::unique_ptr<z_stream_s> inflate_;
};

}  // namespace tessera::host
