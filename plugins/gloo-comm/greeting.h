// How two members make sure of one another before anything else is said on a connection:
//
//     connecting                    listening
//     hello: from, to, nonce, tag ->
//                                 <- answer: nonce, tag
//     proof: tag                  ->
//                                 <- welcome
//
// Every tag is an HMAC-SHA256 over its place in this order, both members, the rendezvous prefix and the nonces known so
// far. The key is random, of this communicator alone, and comes through the job's store, so who has no access to the
// store can neither make a tag nor use a recorded one again: the other side's nonce is new each time. What follows on
// the connection is neither encrypted nor signed: who can change packets on their way can still do harm.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

#include "gloo-comm/sockets.h"

namespace tessera::gloo_comm {

using Secret = std::array<uint8_t, 32>;

/// From the system's source of random numbers. INTERNAL when that fails.
Secret random_secret();

/// What all members of one communicator know, and nobody else.
struct Circle {
  Secret key{};
  std::string prefix;
  int num_ranks = 0;
};

/// One connection until it is known who is at its other end. Never waits: advance() is called when poll() says so.
class Greeting {
 public:
  enum class Result { kPending, kWelcome, kDropped };

  /// A connection that member `own` was given. `own` and the peers are coordinates in the group.
  Greeting(const Circle& circle, Descriptor socket, int own);
  /// A connection on its way from member `own` to `peer`.
  Greeting(const Circle& circle, Descriptor socket, int own, int peer);

  /// kDropped: closed, or the other side is not a member. Then `refusal()` says why a connection could not be made (an
  /// errno), or 0.
  Result advance();

  const Descriptor& socket() const { return socket_; }
  /// What to wait for: POLLIN or POLLOUT.
  short events() const;
  /// The member at the other end; -1 before it has said who it is.
  int peer() const { return peer_; }
  int refusal() const { return refusal_; }
  /// This side has proved itself: the other side may have taken the connection already.
  bool has_proved() const { return step_ == Step::kAwaitWelcome; }
  std::chrono::steady_clock::time_point since() const { return since_; }
  /// The connection of a greeting that ended well.
  Descriptor take() { return std::move(socket_); }

 private:
  enum class Step { kConnecting, kAwaitAnswer, kAwaitWelcome, kAwaitHello, kAwaitProof, kDone };
  struct Message {
    uint64_t magic;
    int32_t from, to;
    Secret nonce, tag;
  };

  Result step();
  Result connected();
  bool take_hello();
  bool take_answer();
  bool take_proof();
  Secret tag(char part) const;

  const Circle& circle_;
  Descriptor socket_;
  const int own_;
  int peer_ = -1;
  Step step_;
  int refusal_ = 0;
  const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  Inbox inbox_;
  Message message_{};
  Secret client_nonce_{}, server_nonce_{};
};

}  // namespace tessera::gloo_comm
