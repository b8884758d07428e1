// Requests over one ring of io_uring, submitted one at a time: at 1 MiB each a system call costs nothing, and the disk
// begins with the first while the sums of the next are computed. Buffers are not registered, since registered memory
// counts against the limit of locked memory.
//
// A submission that the system refuses leaves its entry in the ring, with a pointer that is soon no longer valid: the
// next start() overwrites that entry instead of taking another, and nothing else submits.

#include "storage/uring_queue.h"

#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace tessera::host {
namespace {

class UringQueue final : public IoQueue {
 public:
  UringQueue() {
    refused_.reserve(kSlots);
    check(::io_uring_queue_init(kSlots, &ring_, 0));
    try {
      // Waits with a deadline need no entry of their own (Linux 5.11).
      check(ring_.features & IORING_FEAT_EXT_ARG ? 0 : -ENOSYS);
      // Submissions may be refused where rings are granted.
      ::io_uring_prep_nop(take_entry());
      check(submit());
      io_uring_cqe* completion = nullptr;
      check(::io_uring_wait_cqe(&ring_, &completion));
      ::io_uring_cqe_seen(&ring_, completion);
    } catch (...) {
      ::io_uring_queue_exit(&ring_);
      throw;
    }
  }
  ~UringQueue() override {
    while (num_in_flight_ > 0)
      wait_until(Clock::time_point::max());
    ::io_uring_queue_exit(&ring_);
  }
  UringQueue(const UringQueue&) = delete;
  UringQueue& operator=(const UringQueue&) = delete;

  void start(unsigned slot, const IoRequest& request) noexcept override {
    io_uring_sqe* entry = take_entry();
    const auto num_bytes = static_cast<unsigned>(request.num_bytes);
    if (request.is_write)
      ::io_uring_prep_write(entry, request.descriptor, request.data, num_bytes, request.offset);
    else
      ::io_uring_prep_read(entry, request.descriptor, request.data, num_bytes, request.offset);
    ::io_uring_sqe_set_data64(entry, slot);
    ++num_in_flight_;
    const int result = submit();
    if (result == 0) return;
    unsent_ = entry;
    refused_.push_back({slot, result});
  }

  std::optional<IoCompletion> wait_until(Clock::time_point deadline) override {
    if (!refused_.empty()) {
      --num_in_flight_;
      const IoCompletion completion = refused_.front();
      refused_.erase(refused_.begin());
      return completion;
    }
    for (;;) {
      io_uring_cqe* entry = nullptr;
      __kernel_timespec left = time_left(deadline);
      const int result = ::io_uring_wait_cqe_timeout(&ring_, &entry, &left);
      if (result == 0 && entry) {
        const IoCompletion completion{static_cast<unsigned>(entry->user_data), entry->res};
        ::io_uring_cqe_seen(&ring_, entry);
        --num_in_flight_;
        return completion;
      }
      if (Clock::now() >= deadline) return std::nullopt;
      // Completions come into memory: where waiting is refused, looking is not.
      if (result != -ETIME && result != -EINTR) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

 private:
  static void check(int result) {
    if (result < 0) throw std::system_error(-result, std::generic_category(), "io_uring");
  }

  static __kernel_timespec time_left(Clock::time_point deadline) {
    constexpr std::chrono::nanoseconds kNone{0}, kAnHour = std::chrono::hours(1);  // the loop above waits again
    const std::chrono::nanoseconds left = std::clamp<std::chrono::nanoseconds>(deadline - Clock::now(), kNone, kAnHour);
    return {left.count() / 1'000'000'000, left.count() % 1'000'000'000};
  }

  // There is always one: no more than kSlots are in flight, and each was submitted before the next is taken.
  io_uring_sqe* take_entry() { return unsent_ ? std::exchange(unsent_, nullptr) : ::io_uring_get_sqe(&ring_); }

  // 0 or -errno.
  int submit() {
    int result = 0;
    do {
      result = ::io_uring_submit(&ring_);
    } while (result == -EINTR);
    return std::min(result, 0);
  }

  io_uring ring_{};
  unsigned num_in_flight_ = 0;         // requests that have not come back, refused ones among them
  io_uring_sqe* unsent_ = nullptr;     // in the ring, refused
  std::vector<IoCompletion> refused_;  // never grows beyond what was reserved
};

}  // namespace

std::unique_ptr<IoQueue> make_uring_queue() {
  return std::make_unique<UringQueue>();
}

}  // namespace tessera::host
