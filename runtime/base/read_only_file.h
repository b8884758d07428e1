// A file read by position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tessera::host {

/// An open regular file. Reads go through the system's page cache, never through a mapping: a file that is truncated
/// while it is open causes an Error instead of a signal. Movable. Every const function is [any-thread].
class ReadOnlyFile {
 public:
  /// The system's read takes less than 2 GiB at once.
  static constexpr std::size_t kMaxBytesPerCall = std::size_t{1} << 30;

  /// Throws NOT_FOUND or UNAVAILABLE with the system's reason (for a link, also its target), INVALID_ARGUMENT when it
  /// is not a regular file.
  explicit ReadOnlyFile(const std::string& path, std::size_t max_bytes_per_call = kMaxBytesPerCall);
  ReadOnlyFile(ReadOnlyFile&& other) noexcept;
  ReadOnlyFile& operator=(ReadOnlyFile&&) = delete;
  ~ReadOnlyFile();

  const std::string& path() const { return path_; }
  /// The size when the file was opened.
  uint64_t num_bytes() const { return num_bytes_; }

  /// Fills `out` with the bytes [offset, offset + out.size()). Throws DATA_LOSS when the file ends before that.
  void read(uint64_t offset, std::span<std::byte> out) const;
  /// The same file for direct I/O, as a descriptor that the caller closes; -1 where there is none.
  int open_direct() const;
  /// These bytes will be read soon: the system may begin to read them. Does not wait.
  void expect(uint64_t offset, uint64_t num_bytes) const;

 private:
  /// Where the file ends now, of which `offset` is beyond the end.
  uint64_t end_before(uint64_t offset) const;

  std::string path_;
  std::size_t max_bytes_per_call_;
  int fd_ = -1;
  uint64_t num_bytes_ = 0;
};

/// Whether a file, folder or link has that name, even a dangling link: what exists but cannot be opened must not pass
/// for absent. Throws UNAVAILABLE when the system cannot tell.
bool name_is_there(const std::string& path);

/// The whole file as text. Throws what ReadOnlyFile throws, and INVALID_ARGUMENT for more than `max_bytes`; the
/// sentence begins with the flag that gave the path, if there is one ("--rates").
std::string read_text_file(const std::string& path, uint64_t max_bytes, std::string_view flag = "");

/// The same of a file, or of a pipe up to its end: what bash's <(command) and a piped /dev/stdin are. A pipe can be
/// read once.
std::string read_text_or_pipe(const std::string& path, uint64_t max_bytes);
bool is_pipe(const std::string& path);

/// The first bytes of a file, `max_bytes` at most. Empty where they cannot be read, and for anything that is not a
/// regular file: opening a FIFO, a reader would wait for its writer.
std::string beginning_of(const std::string& path, std::size_t max_bytes);

}  // namespace tessera::host
