// The file store's own pattern without the store: requests of 1 MiB, 16 in flight on one ring, no sums, no labels, no
// deadlines.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

#include "storage/uring_queue.h"

namespace tessera::testing {

inline constexpr uint64_t kMiB = uint64_t{1} << 20;

/// Memory at a multiple of 4096 bytes, as the runtime's arenas give it.
class Chunk {
 public:
  explicit Chunk(uint64_t num_bytes)
      : data_(static_cast<std::byte*>(std::aligned_alloc(4096, num_bytes))), num_bytes_(num_bytes) {
    if (!data_) throw std::bad_alloc();
    for (uint64_t i = 0; i < num_bytes; ++i)
      data_[i] = static_cast<std::byte>(i * 2654435761u >> 16);
  }
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;
  ~Chunk() { std::free(data_); }
  std::span<std::byte> bytes() const { return {data_, num_bytes_}; }

 private:
  std::byte* data_;
  uint64_t num_bytes_;
};

/// The raw pattern over a file of its own.
class RawFile {
 public:
  RawFile(const std::string& folder, uint64_t num_bytes) : num_bytes_(num_bytes) {
    descriptor_ = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
    if (descriptor_ < 0 || ::fallocate(descriptor_, 0, 0, static_cast<off_t>(num_bytes)) != 0)
      throw std::runtime_error(folder + ": " + std::strerror(errno));
  }
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;
  ~RawFile() { ::close(descriptor_); }

  /// Moves the whole file, through `chunk` again and again.
  void move(bool is_write, const Chunk& chunk) const {
    const auto queue = host::make_uring_queue();
    uint64_t next = 0, num_done = 0;
    const auto start = [&](unsigned slot) {
      queue->start(slot, {descriptor_, next, chunk.bytes().data() + next % chunk.bytes().size(), kMiB, is_write});
      next += kMiB;
    };
    for (unsigned slot = 0; slot < host::IoQueue::kSlots && next < num_bytes_; ++slot)
      start(slot);
    while (num_done < num_bytes_) {
      const auto completion = queue->wait_until(std::chrono::steady_clock::time_point::max());
      if (!completion || completion->result != static_cast<int64_t>(kMiB)) throw std::runtime_error("raw transfer");
      num_done += kMiB;
      if (next < num_bytes_) start(completion->slot);
    }
  }

 private:
  int descriptor_ = -1;
  uint64_t num_bytes_;
};

/// Writes in another thread while it reads in this one.
inline void move_both(const std::function<void(bool is_write)>& move) {
  std::thread writer([&] { move(true); });
  move(false);
  writer.join();
}

}  // namespace tessera::testing
