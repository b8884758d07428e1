// One direction of a file store: all its reads, or all its writes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "storage/block_memory.h"
#include "storage/block_sums.h"
#include "storage/io_queue.h"
#include "storage/striped_files.h"

namespace tessera::host {

/// What a direction has done since it was made.
struct TransferCounts {
  uint64_t num_bytes = 0;     ///< moved between memory and files, in whole blocks
  uint64_t num_requests = 0;  ///< reads or writes of the system
  int64_t busy_ns = 0;        ///< time within transfers, those that failed among them
};

/// One call: bytes between memory and [offset, offset + num_bytes) of the files.
struct FileTransfer {
  uint64_t offset = 0;
  std::byte* data = nullptr;
  uint64_t num_bytes = 0;
  std::string_view label;
};

/// One transfer at a time; a second thread waits for its turn.
class Direction {
 public:
  struct Options {
    bool is_write = false;
    int64_t timeout_ms = 0;
    uint64_t max_bytes_per_call = 0;
  };

  /// Borrows `files` and `sums` (null: nothing is checked); both outlive it.
  Direction(Options options, const StripedFiles& files, BlockSums* sums, std::unique_ptr<IoQueue> queue);

  /// Returns when all bytes are moved, and throws when all requests in flight have come back; see FileStore.
  void move(const FileTransfer& transfer);
  /// [any-thread]
  TransferCounts counts() const;

 private:
  friend class TransferRun;

  std::byte* bounce(unsigned slot);

  const Options options_;
  const StripedFiles& files_;
  BlockSums* const sums_;
  std::mutex mutex_;                                  // a transfer holds it
  const std::unique_ptr<IoQueue> queue_;              // under mutex_
  std::array<BlockMemory, IoQueue::kSlots> bounces_;  // under mutex_; made on first use
  std::atomic<uint64_t> num_bytes_{0}, num_requests_{0};
  std::atomic<int64_t> busy_ns_{0};
};

}  // namespace tessera::host
