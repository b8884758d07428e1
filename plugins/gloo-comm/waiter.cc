// gloo's abortWait* marks the buffer, and the next wait on it takes the mark, also if it was meant for one that has
// just ended. So the reason is kept here under a lock, every wait looks at it before and after, and a wait that was
// ended without a reason begins again. A time-out is of one operation and is forgotten when the next begins; an abort
// and a lost connection stay.
#include "gloo-comm/waiter.h"

#include <exception>

namespace tessera::gloo_comm {
namespace {

// Should nobody wake a wait, gloo ends it this long after its deadline.
constexpr int64_t kBackstopMs = 10000;

}  // namespace

void Waiter::begin(const Deadline& deadline) {
  const std::lock_guard lock(mutex_);
  deadline_ = deadline;
  if (reason_ == Outcome::kTimedOut) reason_ = Outcome::kDone;
}

void Waiter::end() {
  const std::lock_guard lock(mutex_);
  deadline_.reset();
}

Outcome Waiter::enter(Buffer& buffer, bool receives) {
  const std::lock_guard lock(mutex_);
  if (reason_ == Outcome::kDone) {
    current_ = &buffer;
    receives_ = receives;
  }
  return reason_;
}

Outcome Waiter::leave() {
  const std::lock_guard lock(mutex_);
  current_ = nullptr;
  return reason_;
}

Outcome Waiter::wait(Buffer& buffer, bool receives) {
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
    // A wake meant for an earlier wait on this buffer, which had just been done: wait again.
  }
}

void Waiter::wake_locked(Outcome reason) noexcept {
  if (reason_ == Outcome::kDone) reason_ = reason;
  if (!current_) return;
  if (receives_)
    current_->abortWaitRecv();
  else
    current_->abortWaitSend();
}

void Waiter::wake(Outcome reason) noexcept {
  const std::lock_guard lock(mutex_);
  wake_locked(reason);
}

void Waiter::wake_if_late() noexcept {
  const std::lock_guard lock(mutex_);
  if (deadline_ && deadline_->passed()) wake_locked(Outcome::kTimedOut);
}

bool Waiter::is_aborted() const noexcept {
  const std::lock_guard lock(mutex_);
  return reason_ == Outcome::kAborted;
}

}  // namespace tessera::gloo_comm
