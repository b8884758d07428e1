// The handshake by which two members authenticate each other before any other byte on a connection:
//
//     connecting                    listening
//     hello: from, to, nonce, tag ->
//                                 <- answer: nonce, tag
//     proof: tag                  ->
//                                 <- welcome
//
// Every tag is an HMAC-SHA256 over its place in this order, both members, the rendezvous prefix and the nonces known so
// far. The key is random, belongs to this communicator alone, and comes through the job's store, so a process without
// access to the store can neither make a tag nor replay one: the other side's nonce is new each time. The data that
// follows is neither encrypted nor signed: an attacker who can modify packets can still do harm.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "gloo-comm/connections/sockets.h"

namespace tessera::gloo_comm {

using Secret = std::array<uint8_t, 32>;

/// From the system's source of random numbers. INTERNAL when that fails.
Secret random_secret();

/// What the members of one communicator share, and no other process knows.
struct GroupKey {
  Secret key{};
  std::string prefix;
  int num_ranks = 0;
};

/// One connection until its other end is authenticated. Never blocks: advance() is called when poll() reports an event.
class Handshake {
 public:
  enum class Result { kPending, kAccepted, kRejected };

  /// The server side: a connection that member `own` has accepted. `own` and the peers are coordinates in the group.
  Handshake(const GroupKey& group, Descriptor socket, int own);
  /// The client side: a connection in progress from member `own` to `peer`.
  Handshake(const GroupKey& group, Descriptor socket, int own, int peer);

  /// kRejected: closed, or the other side is not a member. Then `refusal()` is the errno of a connection that failed,
  /// or 0.
  Result advance();

  const Descriptor& socket() const { return socket_; }
  /// The event to wait for: POLLIN or POLLOUT.
  short events() const;
  /// The member at the other end; -1 before its hello.
  int peer() const { return peer_; }
  int refusal() const { return refusal_; }
  /// This side has sent its proof: the other side may have accepted the connection already.
  bool has_sent_proof() const { return state_ == State::kAwaitWelcome; }
  std::chrono::steady_clock::time_point since() const { return since_; }
  /// The connection of an accepted handshake.
  Descriptor take() { return std::move(socket_); }

 private:
  enum class State { kConnecting, kAwaitAnswer, kAwaitWelcome, kAwaitHello, kAwaitProof, kDone };
  struct Message {
    uint64_t magic;
    int32_t from, to;
    Secret nonce, tag;
  };

  Result step();
  Result connected();
  bool on_hello();
  bool on_answer();
  bool on_proof();
  Secret tag(char part) const;

  const GroupKey& group_;
  Descriptor socket_;
  const int own_;
  int peer_ = -1;
  State state_;
  int refusal_ = 0;
  const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  Inbox inbox_;
  Message message_{};
  Secret client_nonce_{}, server_nonce_{};
};

}  // namespace tessera::gloo_comm
