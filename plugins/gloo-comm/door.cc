#include "gloo-comm/door.h"

#include <algorithm>
#include <cerrno>

#include "gloo-comm/limits.h"

namespace tessera::gloo_comm {
namespace {

constexpr int kMaxAccepts = 64;  // before the others are looked at again
constexpr std::chrono::seconds kMaxSilence(5);

}  // namespace

// A flood drives out who has not said anything right yet; a member whom it hits connects again.
bool Door::make_room() {
  if (callers_.empty()) return false;
  const auto unknown = std::ranges::find(callers_, -1, &Greeting::peer);
  callers_.erase(unknown == callers_.end() ? callers_.begin() : unknown);
  return true;
}

void Door::drop_silent() {
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(callers_, [&](const Greeting& caller) { return now - caller.since() > kMaxSilence; });
}

void Door::let_in(const Circle& circle, int own) {
  for (int i = 0; i < kMaxAccepts; ++i) {
    if (callers_.size() >= max_callers_) make_room();
    Descriptor socket = accept_from(listener_);
    if (socket) {
      callers_.emplace_back(circle, std::move(socket), own);
    } else if (errno == EMFILE || errno == ENFILE) {
      if (!make_room()) throw too_few_descriptors(where_, 1);
    } else {
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
  poller.add(listener_, POLLIN, [this, &circle, own] { let_in(circle, own); });
}

void Door::close() {
  listener_.reset();
  callers_.clear();
}

}  // namespace tessera::gloo_comm
