// The port is open to anyone for as long as create takes. What a stranger can cost is bounded: one
// descriptor each and at most max_callers of them, 5 s of silence, and no byte of theirs reaches gloo. When all places
// are taken, the caller least likely to be a member makes room: one that has said nothing right for 10 ms, then one
// that has not finished within a second. So a flood delays members and cannot keep them out (docs/decisions/0021).
#include "gloo-comm/door.h"

#include <algorithm>
#include <cerrno>

#include "gloo-comm/limits.h"

namespace tessera::gloo_comm {
namespace {

constexpr int kMaxAccepts = 64;  // before the others are looked at again
constexpr std::chrono::seconds kMaxSilence(5);
// For how long nobody else takes the place of a caller that is silent, and of one whose first word was right.
constexpr std::chrono::milliseconds kMaxFirstWord(10), kMaxGreeting(1000);

}  // namespace

// A flood drives out who has not said anything right yet; a member whom it hits connects again.
std::list<Greeting>::iterator Door::least_likely() {
  const auto now = std::chrono::steady_clock::now();
  const auto is_old = [&](const Greeting& caller) {
    return now - caller.since() > (caller.peer() < 0 ? kMaxFirstWord : kMaxGreeting);
  };
  return std::ranges::find_if(callers_, is_old);
}

bool Door::make_room() {
  const auto caller = least_likely();
  if (caller == callers_.end()) return false;
  callers_.erase(caller);
  return true;
}

void Door::drop_silent() {
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(callers_, [&](const Greeting& caller) { return now - caller.since() > kMaxSilence; });
}

void Door::let_in(const Circle& circle, int own) {
  for (int i = 0; i < kMaxAccepts; ++i) {
    if (callers_.size() >= max_callers_ && !make_room()) return;
    Descriptor socket = accept_from(listener_);
    if (socket) {
      callers_.emplace_back(circle, std::move(socket), own);
      if (callers_.back().advance() == Greeting::Result::kDropped) callers_.pop_back();
    } else if (errno != EMFILE && errno != ENFILE) {
      return;
    } else if (!make_room()) {
      if (callers_.empty()) throw too_few_descriptors(where_, 1);
      return;
    }
  }
}

void Door::watch(Poller& poller, const Circle& circle, int own, const OnMember& on_member) {
  drop_silent();
  for (auto caller = callers_.begin(); caller != callers_.end(); ++caller) {
    poller.add(caller->socket(), caller->events(), [this, caller, &on_member] {
      const Greeting::Result result = caller->advance();
      if (result == Greeting::Result::kWelcome) on_member(caller->peer(), caller->take());
      if (result != Greeting::Result::kPending) callers_.erase(caller);
    });
  }
  if (callers_.size() < max_callers_ || least_likely() != callers_.end())
    poller.add(listener_, POLLIN, [this, &circle, own] { let_in(circle, own); });
}

void Door::close() {
  listener_.reset();
  callers_.clear();
}

}  // namespace tessera::gloo_comm
