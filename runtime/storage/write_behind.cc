// A checkpoint is written once and not read again, so the page cache is of no use to it: it costs a page of new memory
// for each page of the file, which is most of the time where a virtual machine gets its memory from the host on first
// use, and it pushes out what others read. So whole windows go around it:
//
//     file       |  window 0  |  window 1  |  window 2  |  w
//     bytes      [------- tensor a ------][---- tensor b ---]
//     page cache  ^ its first window, if it does not begin at a block     ^ the rest
//     direct         ============ whole blocks ==========
//
// Both ways may write into one window, but never into one block, so the kernel keeps them apart. The requests are made
// by threads rather than by io_uring: a file that grows takes its blocks under a lock, for which io_uring would start
// threads of its own.

#include "storage/write_behind.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/concat.h"
#include "storage/block_sums.h"
#include "storage/thread_queue.h"
#include "tessera/error.hpp"

namespace tessera::host {

WriteBehind::WriteBehind(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {
  for (unsigned slot = 0; slot < kWindows; ++slot)
    free_.push_back(slot);
}

WriteBehind::~WriteBehind() {
  queue_.reset();  // waits
  if (direct_ >= 0) ::close(direct_);
}

void WriteBehind::write(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (is_open() && windows_[open_].end != offset) close_window();
    if (!is_open()) open_window(offset);
    Window& window = windows_[open_];
    const uint64_t room = kWindowBytes - offset % kWindowBytes, count = std::min<uint64_t>(room, bytes.size());
    std::memcpy(window.memory.get() + offset % kWindowBytes, bytes.data(), count);
    window.end = offset += count;
    bytes = bytes.subspan(count);
    if (count == room) close_window();
  }
}

void WriteBehind::finish() {
  if (is_open()) close_window();
  while (num_under_way() > 0)
    wait_for_one();
}

void WriteBehind::open_window(uint64_t offset) {
  while (free_.empty())
    wait_for_one();
  open_ = free_.back();
  free_.pop_back();
  Window& window = windows_[open_];
  if (!window.memory) window.memory = allocate_blocks(kWindowBytes);
  window.begin = window.end = offset;
}

void WriteBehind::close_window() {
  const unsigned slot = std::exchange(open_, kWindows);
  Window& window = windows_[slot];
  const bool is_full = window.end % kWindowBytes == 0;
  if (is_full && !std::exchange(has_tried_direct_, true)) {
    direct_ = ::open(path_.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC | O_NOFOLLOW);
    try {
      if (direct_ >= 0) queue_ = make_thread_queue();
    } catch (const std::system_error&) {  // no thread
    }
  }
  const uint64_t first = whole_blocks(window.begin);
  if (!is_full || !queue_ || first == window.end) {
    free_.push_back(slot);
    return write_cached(window, window.begin, window.end);
  }
  window.done = first;
  start(slot);
  write_cached(window, window.begin, first);
}

void WriteBehind::start(unsigned slot) {
  const Window& window = windows_[slot];
  const uint64_t num_bytes = window.end - window.done;
  queue_->start(slot, {direct_, window.done, window.memory.get() + window.done % kWindowBytes, num_bytes, true});
}

void WriteBehind::wait_for_one() {
  if (const auto completion = queue_->wait_until(IoQueue::Clock::time_point::max())) settle(*completion);
}

void WriteBehind::settle(const IoCompletion& completion) {
  Window& window = windows_[completion.slot];
  if (completion.result == -EINTR) return start(completion.slot);
  // Half a block is written again: direct I/O begins at whole ones.
  if (completion.result > 0) window.done += static_cast<uint64_t>(completion.result) / kBlockBytes * kBlockBytes;
  if (completion.result >= static_cast<int64_t>(kBlockBytes) && window.done < window.end) return start(completion.slot);
  free_.push_back(completion.slot);
  // Some file systems take the flag and refuse the transfer, or its end.
  const bool is_refused = completion.result == -EINVAL || completion.result >= 0;
  if (!is_refused) fail(static_cast<int>(-completion.result));
  write_cached(window, window.done, window.end);
}

void WriteBehind::write_cached(const Window& window, uint64_t begin, uint64_t end) {
  for (uint64_t at = begin; at < end;) {
    const std::span<const std::byte> bytes = window.bytes(at, end);
    const ssize_t num_written = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (num_written < 0 && errno == EINTR) continue;
    if (num_written <= 0) fail(num_written < 0 ? errno : EIO);
    at += static_cast<uint64_t>(num_written);
  }
  // The disk may begin, so that a sync in the end has less to wait for.
  if (end - begin >= kBlockBytes)
    ::sync_file_range(descriptor_, static_cast<off_t>(begin), static_cast<off_t>(end - begin), SYNC_FILE_RANGE_WRITE);
}

void WriteBehind::fail(int error) const {
  throw Error(TSR_E_UNAVAILABLE, concat("cannot write ", path_, ": ", std::strerror(error)));
}

}  // namespace tessera::host
