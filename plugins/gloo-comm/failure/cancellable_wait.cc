// gloo's abortWait* marks the buffer, and the next wait on it consumes the mark, even if it was meant for a wait that
// has just ended. So the reason is kept here under a lock, every wait checks it before and after, and a wait that was
// aborted without a reason starts again. A time-out belongs to one operation and is cleared when the next begins; an
// abort and a lost connection stay.
#include "gloo-comm/failure/cancellable_wait.h"

#include <exception>

namespace tessera::gloo_comm {
namespace {

// If nothing cancels a wait, gloo ends it this long after its deadline.
constexpr int64_t kBackstopMs = 10000;

}  // namespace

void CancellableWait::begin(const Deadline& deadline) {
  const std::lock_guard lock(mutex_);
  deadline_ = deadline;
  if (reason_ == Outcome::kTimedOut) reason_ = Outcome::kDone;
}

void CancellableWait::end() {
  const std::lock_guard lock(mutex_);
  deadline_.reset();
}

Outcome CancellableWait::enter(Buffer& buffer, bool receives) {
  const std::lock_guard lock(mutex_);
  if (reason_ == Outcome::kDone) {
    current_ = &buffer;
    receives_ = receives;
  }
  return reason_;
}

Outcome CancellableWait::leave() {
  const std::lock_guard lock(mutex_);
  current_ = nullptr;
  return reason_;
}

Outcome CancellableWait::wait(Buffer& buffer, bool receives) {
  for (;;) {
    if (const Outcome reason = enter(buffer, receives); reason != Outcome::kDone) return reason;
    const std::chrono::milliseconds limit(deadline_->left_ms() + kBackstopMs);
    bool is_done = false, is_broken = false;
    try {
      is_done = receives ? buffer.waitRecv(nullptr, limit) : buffer.waitSend(nullptr, limit);
    } catch (const std::exception&) {
      is_broken = true;
    }
    const Outcome reason = leave();
    if (is_done) return Outcome::kDone;
    if (reason != Outcome::kDone) return reason;
    if (is_broken) return deadline_->passed() ? Outcome::kTimedOut : Outcome::kBroken;
    // The mark was meant for an earlier wait on this buffer, which had just completed: wait again.
  }
}

void CancellableWait::cancel_locked(Outcome reason) noexcept {
  if (reason_ == Outcome::kDone) reason_ = reason;
  if (!current_) return;
  if (receives_)
    current_->abortWaitRecv();
  else
    current_->abortWaitSend();
}

void CancellableWait::cancel(Outcome reason) noexcept {
  const std::lock_guard lock(mutex_);
  cancel_locked(reason);
}

void CancellableWait::cancel_if_late() noexcept {
  const std::lock_guard lock(mutex_);
  if (deadline_ && deadline_->passed()) cancel_locked(Outcome::kTimedOut);
}

bool CancellableWait::is_aborted() const noexcept {
  const std::lock_guard lock(mutex_);
  return reason_ == Outcome::kAborted;
}

}  // namespace tessera::gloo_comm
