// Writing a large file beside the work that makes its bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "storage/block_memory.h"
#include "storage/io_queue.h"

namespace tessera::host {

/// Bytes written one after another are gathered into windows of kWindowBytes of the file, and a full window goes to the
/// disk by direct I/O while the next one is filled. What is left of a window when the place changes, and every file on
/// a file system without direct I/O, goes through the page cache. Order and alignment are free; best is the order of
/// the file. Takes up to 8 MiB, from the first full window on. One thread at a time uses it.
///
/// Errors: UNAVAILABLE with the path and the system's reason, from the call during which a write was found to have
/// failed; what the file holds is unknown then.
class WriteBehind {
 public:
  static constexpr uint64_t kWindowBytes = uint64_t{1} << 20;

  /// `path` is open for writing as `descriptor`, which is borrowed.
  WriteBehind(std::string path, int descriptor);
  /// Waits for what is under way; what was not finished is lost.
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  /// Puts `bytes` at `offset` of the file, where nothing was written since finish(); they are copied. Waits when all
  /// windows are under way.
  void write(uint64_t offset, std::span<const std::byte> bytes);
  /// Afterwards the file has all that was written; it is not durable yet.
  void finish();

 private:
  static constexpr unsigned kWindows = 8;
  static_assert(kWindows <= IoQueue::kSlots);
  /// Bytes [begin, end) of the file, at their distance from the window's begin; [done, end) are under way.
  struct Window {
    BlockMemory memory;
    uint64_t begin = 0, end = 0, done = 0;

    std::span<const std::byte> bytes(uint64_t from, uint64_t to) const {
      return {memory.get() + from % kWindowBytes, to - from};
    }
  };

  void open_window(uint64_t offset);
  void close_window();
  void start(unsigned slot);
  void wait_for_one();
  void settle(const IoCompletion& completion);
  void write_cached(const Window& window, uint64_t begin, uint64_t end);
  [[noreturn]] void fail(int error) const;
  bool is_open() const { return open_ < kWindows; }
  size_t num_under_way() const { return kWindows - free_.size() - (is_open() ? 1 : 0); }

  const std::string path_;
  const int descriptor_;
  int direct_ = -1;  // the same file, open for direct I/O; -1 where that is refused
  bool has_tried_direct_ = false;
  std::unique_ptr<IoQueue> queue_;  // made with direct_
  std::array<Window, kWindows> windows_;
  std::vector<unsigned> free_;  // windows that hold nothing
  unsigned open_ = kWindows;    // the window that is being filled; kWindows: none is
};

}  // namespace tessera::host
