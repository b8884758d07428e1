// Reading parts of large files before they are needed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "base/read_only_file.h"
#include "storage/block_memory.h"
#include "storage/io_queue.h"

namespace tessera::host {

/// Bytes that were read, in memory of their own.
struct FileBytes {
  BlockMemory memory;
  std::span<const std::byte> bytes;  ///< in `memory`
};

/// Parts that were announced are read by direct I/O, up to kParts of them at a time, while what was read before is in
/// use; a file system without it, and small parts, are left to the page cache. Files must outlive it. Takes 16 MiB,
/// from the first part on. One thread at a time uses it.
class ReadAhead {
 public:
  static constexpr uint64_t kMaxBytes = uint64_t{1} << 20;  ///< of a part
  static constexpr unsigned kParts = 16;

  ReadAhead() = default;
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// This part, of up to kMaxBytes, will be read soon, at this offset and of this size. Does not wait; does nothing
  /// when there are kParts already. One that was not read is forgotten after a while.
  void expect(const ReadOnlyFile& file, uint64_t offset, uint64_t num_bytes);
  /// Gives `out` that part; waits when it is still being read. What was announced is not copied: `out` changes memory
  /// with it, so give the same one again. Throws what ReadOnlyFile::read throws.
  void read(const ReadOnlyFile& file, uint64_t offset, uint64_t num_bytes, FileBytes& out);

 private:
  static_assert(kParts <= IoQueue::kSlots);
  struct Part {
    enum class State { empty, under_way, ready };
    State state = State::empty;
    const ReadOnlyFile* file = nullptr;
    uint64_t offset = 0, num_bytes = 0;
    int64_t result = 0;      // bytes read, or -errno
    uint64_t num_reads = 0;  // before it was expected
    BlockMemory memory;
  };

  Part* find(const ReadOnlyFile& file, uint64_t offset, uint64_t num_bytes);
  Part* take_empty();
  int direct_descriptor(const ReadOnlyFile& file);
  bool take(const ReadOnlyFile& file, uint64_t offset, uint64_t num_bytes, FileBytes& out);
  bool settle_one(IoQueue::Clock::time_point deadline);

  std::map<const ReadOnlyFile*, int> direct_;  // -1: only through the page cache
  std::array<Part, kParts> parts_;
  uint64_t num_reads_ = 0;
  std::unique_ptr<IoQueue> queue_;  // made with the first part; goes first, and waits
};

}  // namespace tessera::host
