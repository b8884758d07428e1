// A transfer is cut at stripes into pieces of up to 1 MiB, up to 16 of them in flight:
//
//     start    write: sum of each block -> request        read: request
//     finish   short: request for the rest                EINTR, EAGAIN: again
//              read: compare the sums of its blocks
//
// So sums are computed while the disk works on other pieces. A piece whose memory is not aligned, or which ends within
// a block, goes through memory of its own, aligned and padded with zeros to whole blocks.
//
// Requests use the caller's memory, and the kernel cannot take back what it has given to a disk. So after an error or
// the deadline no piece is started any more, and the transfer returns when the last in flight has come back.

#include "storage/direction.h"

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {

class TransferRun {
 public:
  TransferRun(Direction& direction, const FileTransfer& transfer)
      : direction_(direction),
        transfer_(transfer),
        deadline_(IoQueue::Clock::now() + std::chrono::milliseconds(direction.options_.timeout_ms)),
        next_(transfer.offset),
        end_(transfer.offset + transfer.num_bytes) {
    for (unsigned slot = 0; slot < IoQueue::kSlots; ++slot)
      free_.push_back(slot);
  }

  void run() {
    try {
      move_all();
    } catch (...) {
      while (num_in_flight() > 0)
        if (const auto completion = wait(IoQueue::Clock::time_point::max())) free_.push_back(completion->slot);
      throw;
    }
    drop_cached();
  }

 private:
  struct InFlight {
    Piece piece;
    std::byte* memory = nullptr;  // aligned; the caller's or the slot's own
    uint64_t num_bytes = 0;       // whole blocks
    uint64_t num_done = 0;        // whole blocks
  };

  size_t num_in_flight() const { return IoQueue::kSlots - free_.size(); }
  bool is_write() const { return direction_.options_.is_write; }
  std::byte* callers(const Piece& piece) const { return transfer_.data + (piece.offset - transfer_.offset); }
  std::optional<IoCompletion> wait(IoQueue::Clock::time_point deadline) {
    return direction_.queue_->wait_until(deadline);
  }

  void move_all() {
    while (next_ < end_ || num_in_flight() > 0) {
      check_deadline();
      if (next_ < end_ && !free_.empty()) {
        start_next();
        continue;
      }
      if (const auto completion = wait(deadline_)) finish(*completion);
    }
  }

  void check_deadline() const {
    if (IoQueue::Clock::now() < deadline_) return;
    throw Error(TSR_E_DEADLINE,
                concat("offload file: ", is_write() ? "writing " : "reading ", transfer_.num_bytes, " bytes of ",
                       transfer_.label, " at ", transfer_.offset, " timed out after ", direction_.options_.timeout_ms,
                       " ms; use a faster disk, or raise --timeout-ms"));
  }

  void start_next() {
    const unsigned slot = free_.back();
    InFlight& now = in_flight_[slot];
    now = {.piece = direction_.files_.first_piece(next_, end_)};
    now.num_bytes = whole_blocks(now.piece.num_bytes);
    std::byte* const data = callers(now.piece);
    const bool is_aligned = reinterpret_cast<uintptr_t>(data) % kBlockBytes == 0;
    now.memory = is_aligned && now.num_bytes == now.piece.num_bytes ? data : direction_.bounce(slot);
    if (is_write()) {
      if (now.memory != data) {
        std::memcpy(now.memory, data, now.piece.num_bytes);
        std::memset(now.memory + now.piece.num_bytes, 0, now.num_bytes - now.piece.num_bytes);
      }
      if (direction_.sums_) direction_.sums_->record(now.piece.offset, {now.memory, now.num_bytes});
    }
    free_.pop_back();
    next_ += now.piece.num_bytes;
    start(slot);
  }

  // What of the piece is not done yet.
  void start(unsigned slot) {
    const InFlight& now = in_flight_[slot];
    ++direction_.num_requests_;
    direction_.queue_->start(
        slot, {.descriptor = direction_.files_.file(now.piece.file).descriptor(),
               .offset = now.piece.file_offset + now.num_done,
               .data = now.memory + now.num_done,
               .num_bytes = std::min(now.num_bytes - now.num_done, direction_.options_.max_bytes_per_call),
               .is_write = is_write()});
  }

  void finish(const IoCompletion& completion) {
    InFlight& now = in_flight_[completion.slot];
    const bool try_again = completion.result == -EINTR || completion.result == -EAGAIN;
    if (completion.result == -EAGAIN) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    // Half a block is done again: O_DIRECT begins at whole ones.
    const uint64_t moved = completion.result > 0 ? static_cast<uint64_t>(completion.result) : 0;
    const uint64_t whole = moved / kBlockBytes * kBlockBytes;
    if (!try_again && whole == 0) {
      free_.push_back(completion.slot);
      fail(now, completion.result);
    }
    now.num_done += whole;
    if (now.num_done < now.num_bytes) return start(completion.slot);
    free_.push_back(completion.slot);
    direction_.num_bytes_ += now.num_bytes;
    if (!is_write()) deliver(now);
  }

  [[noreturn]] void fail(const InFlight& at, int64_t result) const {
    const std::string where = concat(transfer_.label, " at ", at.piece.offset + at.num_done, " in ",
                                     direction_.files_.file(at.piece.file).name());
    if (result < 0) fail_to_move(where, static_cast<int>(-result));
    if (is_write())
      throw Error(TSR_E_UNAVAILABLE, concat("offload file: the system writes less than a block of ", where));
    throw Error(TSR_E_DATA_LOSS, concat("offload file: it ends within ", where, "; was it cut while it was in use?"));
  }

  [[noreturn]] void fail_to_move(const std::string& where, int error) const {
    throw Error(TSR_E_UNAVAILABLE,
                concat("offload file: cannot ", is_write() ? "write " : "read ", where, ": ", std::strerror(error)));
  }

  void deliver(const InFlight& piece) const {
    if (direction_.sums_)
      if (const auto at = direction_.sums_->first_difference(piece.piece.offset, {piece.memory, piece.num_bytes}))
        throw Error(TSR_E_DATA_LOSS, concat("offload file: ", kBlockBytes, " bytes of ", transfer_.label, " at ", *at,
                                            " are not what was written (crc32c); check the disk of ",
                                            direction_.files_.file(piece.piece.file).name()));
    std::byte* const data = callers(piece.piece);
    if (piece.memory != data) std::memcpy(data, piece.memory, piece.piece.num_bytes);
  }

  // Of files that go through the page cache.
  void drop_cached() const {
    for (uint64_t offset = transfer_.offset; offset < end_;) {
      const Piece piece = direction_.files_.first_piece(offset, end_);
      const UnnamedFile& file = direction_.files_.file(piece.file);
      if (const int error = file.drop_cached(piece.file_offset, whole_blocks(piece.num_bytes)))
        fail_to_move(concat(transfer_.label, " at ", offset, " in ", file.name()), error);
      offset += piece.num_bytes;
    }
  }

  Direction& direction_;
  const FileTransfer& transfer_;
  const IoQueue::Clock::time_point deadline_;
  uint64_t next_;  // what is before it has been started
  const uint64_t end_;
  std::vector<unsigned> free_;  // slots
  std::array<InFlight, IoQueue::kSlots> in_flight_;
};

Direction::Direction(Options options, const StripedFiles& files, BlockSums* sums, std::unique_ptr<IoQueue> queue)
    : options_(options), files_(files), sums_(sums), queue_(std::move(queue)) {}

void Direction::move(const FileTransfer& transfer) {
  const std::lock_guard lock(mutex_);
  struct Busy {
    std::atomic<int64_t>& ns;
    const IoQueue::Clock::time_point start = IoQueue::Clock::now();
    ~Busy() { ns += std::chrono::nanoseconds(IoQueue::Clock::now() - start).count(); }
  };
  const Busy busy{busy_ns_};
  TransferRun(*this, transfer).run();
}

TransferCounts Direction::counts() const {
  return {num_bytes_, num_requests_, busy_ns_};
}

std::byte* Direction::bounce(unsigned slot) {
  auto& memory = bounces_[slot];
  if (!memory) memory = allocate_blocks(kStripeBytes);
  return memory.get();
}

}  // namespace tessera::host
