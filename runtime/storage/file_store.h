// Memory on disk: what is offloaded to files is here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "storage/direction.h"
#include "storage/io_engine.h"

namespace tessera::host {

struct FileStoreOptions {
  std::vector<std::string> folders;  ///< --offload-dir; several share the bytes in stripes of kStripeBytes
  uint64_t num_bytes = 0;            ///< reserved at once, over all folders
  IoEngine engine = IoEngine::automatic;
  bool check = true;             ///< keep and compare a crc32c of every block
  int64_t timeout_ms = 600'000;  ///< for each read and each write
  /// The most that one call of the system is asked for, a multiple of kBlockBytes. Fewer than kStripeBytes: for tests
  /// of requests that are cut short.
  uint64_t max_bytes_per_call = kStripeBytes;
  /// The flag that names the folders, for messages; empty: they were given as words.
  std::string flag = "--offload-dir";
};

/// Bytes [0, num_bytes) in files without names, one in each folder; the system frees their space when the process ends,
/// however it ends. Where the file system can, transfers bypass the page cache (O_DIRECT). What was never written is
/// zero.
///
/// One thread may read while another writes, in ranges that share no block; a second reader or writer waits for the
/// first. Each transfer is cut into requests of up to 1 MiB, 16 of them in flight. Memory may have any alignment, but
/// what is not aligned to kBlockBytes is copied once more, as is an end within a block; the copies take up to 16 MiB in
/// each direction, kept from the first that needs them. The sums take 4 bytes of memory a block.
///
/// Errors of transfers:
///   UNAVAILABLE       a request failed: names the label, the offset, the folder and the system's reason
///   DATA_LOSS         a block read is not what was last written there; or the file was cut
///   DEADLINE          timeout_ms have passed
///   INVALID_ARGUMENT  the offset is not a multiple of kBlockBytes, or the range ends beyond the store
/// A transfer that fails has no request in flight when it throws, whatever that takes, so the caller may free its
/// memory: a disk that never answers holds the call. What a failed write left of its range is unknown, and reading it
/// is DATA_LOSS unless all of it was written; what a failed read left in memory is unknown, too. Other ranges are as
/// before, and the store can still be used.
class FileStore {
 public:
  /// Makes the files and reserves their space. `log` gets a warning for each folder that is not what it should be (see
  /// UnnamedFile), and a line where io_uring was not asked for and is refused. Throws what UnnamedFile throws, and
  /// UNAVAILABLE when io_uring was asked for and is refused.
  FileStore(const FileStoreOptions& options, const Log& log);
  /// No transfer may run; nothing is in flight outside of one.
  ~FileStore();
  FileStore(const FileStore&) = delete;
  FileStore& operator=(const FileStore&) = delete;

  /// Moves `data` into the store at `offset`; the bytes after it up to the next whole block become zero. `label` is
  /// what it is, for errors: "optimizer h.3 m". `data` is borrowed until it returns. [any-thread]
  void write(uint64_t offset, std::span<const std::byte> data, std::string_view label);
  /// Fills `data` from the store at `offset`. Borrows as write() does. [any-thread]
  void read(uint64_t offset, std::span<std::byte> data, std::string_view label);

  /// Never automatic. [any-thread]
  IoEngine engine() const { return engine_; }
  /// The bytes reserved: options.num_bytes in whole blocks. [any-thread]
  uint64_t num_bytes() const { return num_bytes_; }
  /// [any-thread]
  TransferCounts write_counts() const { return writer_->counts(); }
  TransferCounts read_counts() const { return reader_->counts(); }

 private:
  void check_range(uint64_t offset, uint64_t num_bytes, std::string_view label) const;

  const uint64_t num_bytes_;
  IoEngine engine_;
  StripedFiles files_;
  std::unique_ptr<BlockSums> sums_;  // null: nothing is checked
  std::unique_ptr<Direction> reader_, writer_;
};

}  // namespace tessera::host
