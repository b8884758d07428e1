// Connections, timers and the epoll loop; loop.h has the state machine and its invariants.
// Decision 0020 has the reasons for the limits.
//
//     epoll   the listener: accept            the eventfd: a waiting get may have its key   a connection: read, flush
//     timers  the listener: accept again      the eventfd: the farewell is over             a connection: be_late

#include "launch/store/loop.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

// Members have their turn after so many newcomers, however many come.
constexpr int kAcceptsAtOnce = 16;
// Without descriptors; by then strangers have timed out, or other files of the process were closed.
constexpr int64_t kAcceptPauseMs = 100;
constexpr int kEventsAtOnce = 128;

// At most a quarter of the descriptors: this may be a rank's process, which needs some itself.
size_t max_strangers() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 32;
  return static_cast<size_t>(std::clamp<rlim_t>(limit.rlim_cur / 4, 4, 128));
}

bool is_short_of_resources(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

StoreLoop::StoreLoop(const Socket& listener, const Socket& wake, std::string secret, StoreEvents events,
                     MemoryStore& store)
    : listener_(listener),
      wake_(wake),
      secret_(std::move(secret)),
      events_(std::move(events)),
      store_(store),
      max_strangers_(max_strangers()),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (epoll_.fd() < 0)
    throw Error(TSR_E_UNAVAILABLE, concat("cannot serve the job's key-value store: ", std::strerror(errno),
                                          errno == EMFILE ? "; raise ulimit -n" : ""));
  watch(wake_.fd(), EPOLL_CTL_ADD, EPOLLIN);
  watch(listener_.fd(), EPOLL_CTL_ADD, EPOLLIN);
}

void StoreLoop::watch(int fd, int operation, uint32_t events) const {
  epoll_event wanted{};
  wanted.events = events;
  wanted.data.fd = fd;
  if (::epoll_ctl(epoll_.fd(), operation, fd, &wanted) != 0)
    throw Error(TSR_E_UNAVAILABLE, concat("the key-value store cannot watch a connection: ", std::strerror(errno)));
}

void StoreLoop::run(const std::atomic<bool>& is_stopping) {
  std::array<epoll_event, kEventsAtOnce> events;
  while (!is_stopping || (farewell_ && std::chrono::steady_clock::now() < *farewell_)) {
    const int num_events = ::epoll_wait(epoll_.fd(), events.data(), kEventsAtOnce, next_timeout_ms());
    if (num_events < 0 && errno != EINTR)
      throw Error(TSR_E_UNAVAILABLE, concat("the key-value store cannot wait: ", std::strerror(errno)));
    for (int i = 0; i < num_events; ++i)
      handle(events[static_cast<size_t>(i)].data.fd, events[static_cast<size_t>(i)].events);
    expire();
  }
}

int StoreLoop::next_timeout_ms() const {
  return timers_.empty() ? -1 : remaining_ms(timers_.begin()->first);
}

void StoreLoop::set_timer(Peer& peer, int64_t timeout_ms) {
  clear_timer(peer);
  peer.timer = timers_.emplace(deadline_in(timeout_ms), peer.socket.fd());
}

void StoreLoop::clear_timer(Peer& peer) {
  if (peer.timer) timers_.erase(*std::exchange(peer.timer, std::nullopt));
}

// Two timers are not of connections: that of the listener's pause, and that of the farewell, which only wakes run().
void StoreLoop::expire() {
  while (!timers_.empty() && timers_.begin()->first <= std::chrono::steady_clock::now()) {
    const int fd = timers_.begin()->second;
    if (Peer* peer = find(fd)) {
      guarded(*peer, [&] { be_late(*peer); });
    } else {
      timers_.erase(timers_.begin());
      if (fd == listener_.fd()) watch(fd, EPOLL_CTL_MOD, EPOLLIN);
    }
  }
}

void StoreLoop::handle(int fd, uint32_t events) {
  if (fd == listener_.fd()) return accept_some();
  if (fd == wake_.fd()) {
    uint64_t count = 0;
    if (::read(fd, &count, sizeof count) > 0) answer_waiting();
    return;
  }
  Peer* peer = find(fd);
  if (!peer) return;  // dropped after epoll_wait returned
  guarded(*peer, [&] {
    if ((events & EPOLLOUT) != 0) flush(*peer);
    // Errors and hang-ups too: recv reports them.
    if ((events & ~uint32_t{EPOLLOUT}) != 0) read(*peer);
  });
}

StoreLoop::Peer* StoreLoop::find(int fd) {
  const auto found = peers_.find(fd);
  return found == peers_.end() ? nullptr : &found->second;
}

void StoreLoop::accept_some() {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    Socket socket = listener_.accept();
    if (socket.fd() >= 0) {
      admit(std::move(socket));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (is_short_of_resources(errno) && !evict_stranger()) {
      return pause_accepting();
    }
  }
}

void StoreLoop::admit(Socket socket) {
  if (strangers_.size() >= max_strangers_) evict_stranger();
  const int fd = socket.fd();
  Peer& peer = peers_.try_emplace(fd, std::move(socket)).first->second;
  guarded(peer, [&] {
    strangers_.push_back(fd);
    set_timer(peer, kGreetingTimeoutMs);
    watch(fd, EPOLL_CTL_ADD, EPOLLIN);
    read(peer);  // a stranger whose hello has arrived is not the next to be evicted
  });
}

bool StoreLoop::evict_stranger() {
  if (strangers_.empty()) return false;
  const auto is_silent = [&](int fd) { return peers_.at(fd).stage == Stage::hello; };
  const auto silent = std::find_if(strangers_.begin(), strangers_.end(), is_silent);
  drop(peers_.at(silent == strangers_.end() ? strangers_.front() : *silent));
  return true;
}

// The listener stays readable while a connection waits, so epoll would report it again at once.
void StoreLoop::pause_accepting() {
  watch(listener_.fd(), EPOLL_CTL_MOD, 0);
  timers_.emplace(deadline_in(kAcceptPauseMs), listener_.fd());
}

void StoreLoop::guarded(Peer& peer, const std::function<void()>& work) {
  try {
    work();
    if (peer.stage != Stage::leaving) return;
  } catch (const std::exception&) {
    // The peer broke the protocol or is gone, so the error cannot be reported to it.
  }
  drop(peer);
}

void StoreLoop::drop(Peer& peer) {
  const int fd = peer.socket.fd();
  clear_timer(peer);
  stop_waiting(peer);
  strangers_.remove(fd);
  // Taken before the erase, which destroys the peer.
  const std::optional<Participant> member = std::move(peer.member);
  peers_.erase(fd);
  if (member && members_.leave(*member) && events_.on_lost) events_.on_lost(store_, *member);
}

}  // namespace tessera::host
