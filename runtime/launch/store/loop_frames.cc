// What the server of the key-value store does with the frames of a connection: the second part of loop.h.
//
//     stage     frame                          answer
//     hello     Hello, 40 bytes                Hello
//     claim     Claim, 304 bytes               Answer, 40 bytes; after a refusal a Reply with the sentence
//     request   Request, 32 bytes, key, value  Reply, 16 bytes, payload; of a get when its key is there
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "launch/store/loop.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr int64_t kForeverMs = int64_t{1} << 40;
constexpr int64_t kFarewellMs = 2'000;
// From one connection before the others' turn; the kernel keeps the rest.
constexpr int kReadsAtOnce = 16;
constexpr size_t kReadNumBytes = 64 * 1024;

template <class Frame>
Frame frame_of(std::string_view bytes) {
  Frame frame{};
  bytes.copy(reinterpret_cast<char*>(&frame), sizeof frame);
  return frame;
}

[[noreturn]] void end_connection(const char* why) {
  throw Error(TSR_E_UNAVAILABLE, why);
}

// Memory grows with what has arrived, not with what a header claims.
// Appends received bytes, up to `wanted` bytes in all. False when none have arrived.
bool receive(const Socket& socket, std::string& in, size_t wanted) {
  const size_t before = in.size();
  in.resize(std::min(wanted, before + kReadNumBytes));
  const ssize_t got = ::recv(socket.fd(), in.data() + before, in.size() - before, MSG_DONTWAIT);
  const int error = errno;
  in.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (got > 0) return true;
  if (got == 0 || (error != EAGAIN && error != EWOULDBLOCK && error != EINTR)) end_connection("it closed");
  return false;
}

// Size of the whole frame, or of its header until that has arrived.
size_t request_num_bytes(std::string_view in) {
  if (in.size() < sizeof(wire::Request)) return sizeof(wire::Request);
  const auto request = frame_of<wire::Request>(in);
  if (request.key_num_bytes > kMaxKeyBytes || request.value_num_bytes > kMaxValueBytes)
    end_connection("its request is too long");
  return sizeof request + request.key_num_bytes + request.value_num_bytes;
}

}  // namespace

void StoreLoop::read(Peer& peer) {
  for (int reads = 0; peer.out.empty() && peer.stage != Stage::leaving;) {
    // While a get waits nothing may come: one byte is enough to see that something did.
    const size_t wanted = peer.stage == Stage::hello   ? sizeof(wire::Hello)
                          : peer.stage == Stage::claim ? sizeof(wire::Claim)
                          : peer.waiting               ? 1
                                                       : request_num_bytes(peer.in);
    if (peer.in.size() == wanted) {
      take_frame(peer);
    } else if (++reads > kReadsAtOnce || !receive(peer.socket, peer.in, wanted)) {
      break;
    }
  }
  // A frame that has begun must end; between frames a member may be silent for ever.
  if (!peer.in.empty() && !peer.timer) set_timer(peer, kReplyTimeoutMs);
}

void StoreLoop::take_frame(Peer& peer) {
  if (peer.waiting) end_connection("it sent a request before the previous one was answered");
  if (peer.stage == Stage::hello) return take_hello(peer);
  if (peer.stage == Stage::claim) return take_claim(peer);
  take_request(peer);
}

void StoreLoop::take_hello(Peer& peer) {
  const auto hello = frame_of<wire::Hello>(peer.in);
  peer.in.clear();
  if (hello.magic != wire::kMagic) end_connection("it speaks another protocol");
  peer.client_nonce = hello.nonce;
  peer.server_nonce = wire::random_bytes();
  peer.stage = Stage::claim;
  send(peer, wire::bytes_of(wire::Hello{wire::kMagic, peer.server_nonce}));
}

void StoreLoop::take_claim(Peer& peer) {
  const auto claim = frame_of<wire::Claim>(peer.in);
  peer.in.clear();
  const wire::Proofs proofs{secret_, peer.client_nonce, peer.server_nonce};
  // The answer has no proof: one made with our secret could be tried against guesses.
  if (!wire::is_equal(claim.proof, proofs.client(claim))) {
    send(peer, wire::bytes_of(wire::Answer{{}, wire::kOtherSecret}));
    peer.stage = Stage::leaving;
    if (events_.on_other_secret) events_.on_other_secret(wire::participant_of(claim));
    return;
  }
  const Participant who = wire::participant_of(claim);
  const std::string refusal = members_.join(who);
  const uint64_t kind = refusal.empty() ? wire::kWelcome : wire::kRefused;
  std::string frame(wire::bytes_of(wire::Answer{proofs.server(claim, kind), kind}));
  if (refusal.empty()) {
    clear_timer(peer);
    strangers_.remove(peer.socket.fd());
    peer.member = who;
    peer.stage = Stage::request;
  } else {
    if (!store_.has(kJobStarted)) end_job(refusal);
    peer.stage = Stage::leaving;
    frame += wire::reply(TSR_E_ALREADY_EXISTS, refusal);
  }
  send(peer, frame);
}

// The timer of the eventfd ends the wait of run() when the farewell is over.
// Two jobs met before either had started, and it is unknown which rank belongs to which.
void StoreLoop::end_job(const std::string& sentence) {
  store_.close(sentence);
  if (farewell_) return;
  farewell_ = deadline_in(kFarewellMs);
  timers_.emplace(*farewell_, wake_.fd());
}

void StoreLoop::take_request(Peer& peer) {
  clear_timer(peer);
  const std::string frame = std::move(peer.in);
  peer.in.clear();
  const auto request = frame_of<wire::Request>(frame);
  const std::string_view body = std::string_view(frame).substr(sizeof request);
  std::optional<std::string> reply;
  try {
    reply = answer(peer, request, body.substr(0, request.key_num_bytes), body.substr(request.key_num_bytes));
  } catch (const Error& error) {
    reply = wire::reply(error.code(), error.what());
  }
  if (reply) send(peer, *reply);
}

// Empty when there is no reply now.
std::optional<std::string> StoreLoop::answer(Peer& peer, const wire::Request& request, std::string_view key,
                                             std::string_view value) {
  switch (request.operation) {
    case wire::kSet:
      store_.set(key, value);
      return wire::reply(TSR_OK, "");
    case wire::kAdd:
      return wire::reply(TSR_OK, wire::bytes_of(store_.add(key, request.argument)));
    case wire::kGet:
      if (const auto found = store_.find(key)) return wire::reply(TSR_OK, *found);
      start_waiting(peer, key, request.argument);
      return std::nullopt;
    case wire::kClose:
      store_.close(value);
      return wire::reply(TSR_OK, "");
    case wire::kGoodbye:
      members_.say_goodbye(*peer.member);
      return std::nullopt;
    default:
      throw Error(TSR_E_INVALID_ARGUMENT, "the key-value store does not know this operation");
  }
}

void StoreLoop::send(Peer& peer, std::string_view bytes) {
  peer.out = bytes;
  peer.num_sent = 0;
  flush(peer);
  if (peer.out.empty()) return;
  // The buffers of a new connection hold the answers of the handshake; a stranger gets no more room than these.
  if (!peer.member) end_connection("it does not read its reply");
  peer.is_writing = true;
  set_timer(peer, kReplyTimeoutMs);
  watch(peer.socket.fd(), EPOLL_CTL_MOD, EPOLLOUT);
}

void StoreLoop::flush(Peer& peer) {
  while (peer.num_sent < peer.out.size()) {
    const ssize_t put = ::send(peer.socket.fd(), peer.out.data() + peer.num_sent, peer.out.size() - peer.num_sent,
                               MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (put < 0 && errno != EINTR) end_connection("it is gone");
    peer.num_sent += static_cast<size_t>(std::max<ssize_t>(put, 0));
  }
  peer.out = {};
  if (!std::exchange(peer.is_writing, false)) return;
  clear_timer(peer);
  watch(peer.socket.fd(), EPOLL_CTL_MOD, EPOLLIN);
}

// The reply to a get of this key, if there is one now.
std::optional<std::string> StoreLoop::look_up(const std::string& key) {
  try {
    const auto found = store_.find(key);
    return found ? std::optional(wire::reply(TSR_OK, *found)) : std::nullopt;
  } catch (const Error& error) {
    return wire::reply(error.code(), error.what());
  }
}

void StoreLoop::start_waiting(Peer& peer, std::string_view key, int64_t timeout_ms) {
  peer.waiting = waiting_.emplace(key, peer.socket.fd());
  set_timer(peer, std::clamp<int64_t>(timeout_ms, 0, kForeverMs));
}

void StoreLoop::stop_waiting(Peer& peer) {
  if (!peer.waiting) return;
  waiting_.erase(*std::exchange(peer.waiting, std::nullopt));
  clear_timer(peer);
}

void StoreLoop::be_late(Peer& peer) {
  clear_timer(peer);
  if (!peer.waiting) end_connection("it was too slow");
  stop_waiting(peer);
  send(peer, wire::reply(TSR_E_DEADLINE, ""));
}

// Keys and readers are listed first, since sending may drop a peer and with it entries of the map.
void StoreLoop::answer_waiting() {
  std::vector<std::string> keys;
  for (auto entry = waiting_.begin(); entry != waiting_.end(); entry = waiting_.upper_bound(entry->first))
    keys.push_back(entry->first);
  for (const std::string& key : keys) {
    const std::optional<std::string> reply = look_up(key);
    if (!reply) continue;
    std::vector<int> readers;
    for (auto [entry, end] = waiting_.equal_range(key); entry != end; ++entry)
      readers.push_back(entry->second);
    for (const int fd : readers) {
      Peer& peer = *find(fd);
      stop_waiting(peer);
      guarded(peer, [&] { send(peer, *reply); });
    }
  }
}

}  // namespace tessera::host
