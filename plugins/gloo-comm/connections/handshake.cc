// One function for each message of the table in handshake.h: on_*() checks the message and sends the next one. Tags are
// compared in constant time, and the other side cannot tell which part was wrong: every mistake closes the connection.
// Nonces of both sides are in the tags of answer and proof, so neither can be replayed.
#include "gloo-comm/connections/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <poll.h>

#include "tessera/error.hpp"

namespace tessera::gloo_comm {
namespace {

// The last character is the version of the protocol before gloo's first byte.
constexpr uint64_t kMagic = 0x316f6c6c67727374;  // "tsrgllo1"
// The messages of a handshake: part of the tag, so that no message can pass for another.
constexpr char kHello = 'h', kAnswer = 'a', kProof = 'p', kWelcome = 'w';

bool is_equal(const Secret& a, const Secret& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

template <class T>
void append(std::string& text, const T& value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

Secret random_secret() {
  Secret secret;
  if (RAND_bytes(secret.data(), static_cast<int>(secret.size())) != 1)
    throw Error(TSR_E_INTERNAL, "[gloo-comm] cannot read random numbers from the system (RAND_bytes failed)");
  return secret;
}

Handshake::Handshake(const GroupKey& group, Descriptor socket, int own)
    : group_(group),
      socket_(std::move(socket)),
      own_(own),
      state_(State::kAwaitHello),
      server_nonce_(random_secret()) {}

Handshake::Handshake(const GroupKey& group, Descriptor socket, int own, int peer)
    : group_(group),
      socket_(std::move(socket)),
      own_(own),
      peer_(peer),
      state_(State::kConnecting),
      client_nonce_(random_secret()) {}

short Handshake::events() const {
  return state_ == State::kConnecting ? POLLOUT : POLLIN;
}

// HMAC over magic, part, from, to, both nonces (the server's is not known yet in the first message) and the prefix. The
// part keeps one message from being sent back as another (a reflection), from and to keep it from being sent to a third
// member.
Secret Handshake::tag(char part) const {
  const bool is_client = state_ <= State::kAwaitWelcome;
  std::string text;
  append(text, kMagic);
  append(text, part);
  append(text, static_cast<int32_t>(is_client ? own_ : peer_));
  append(text, static_cast<int32_t>(is_client ? peer_ : own_));
  append(text, client_nonce_);
  append(text, part == kHello ? Secret{} : server_nonce_);
  text += group_.prefix;
  Secret result;
  if (!HMAC(EVP_sha256(), group_.key.data(), static_cast<int>(group_.key.size()),
            reinterpret_cast<const unsigned char*>(text.data()), text.size(), result.data(), nullptr))
    throw Error(TSR_E_INTERNAL, "[gloo-comm] OpenSSL cannot compute HMAC-SHA256");
  return result;
}

Handshake::Result Handshake::connected() {
  refusal_ = connect_error(socket_);
  if (refusal_ != 0) return Result::kRejected;
  const Message hello{kMagic, own_, peer_, client_nonce_, tag(kHello)};
  if (!send_all(socket_, &hello, sizeof hello)) return Result::kRejected;
  state_ = State::kAwaitAnswer;
  return Result::kPending;
}

bool Handshake::on_hello() {
  if (message_.magic != kMagic || message_.to != own_ || message_.from < 0 || message_.from >= group_.num_ranks ||
      message_.from == own_)
    return false;
  peer_ = message_.from;
  client_nonce_ = message_.nonce;
  if (!is_equal(message_.tag, tag(kHello))) return false;
  const Message answer{kMagic, own_, peer_, server_nonce_, tag(kAnswer)};
  state_ = State::kAwaitProof;
  return send_all(socket_, &answer, sizeof answer);
}

bool Handshake::on_answer() {
  server_nonce_ = message_.nonce;
  if (message_.magic != kMagic || message_.from != peer_ || message_.to != own_ ||
      !is_equal(message_.tag, tag(kAnswer)))
    return false;
  const Message proof{kMagic, own_, peer_, {}, tag(kProof)};
  state_ = State::kAwaitWelcome;
  return send_all(socket_, &proof, sizeof proof);
}

bool Handshake::on_proof() {
  if (!is_equal(message_.tag, tag(kProof))) return false;
  state_ = State::kDone;
  return send_all(socket_, &kWelcome, 1);
}

Handshake::Result Handshake::step() {
  if (state_ == State::kConnecting) return connected();
  const bool is_welcome = state_ == State::kAwaitWelcome;
  switch (inbox_.receive(socket_, &message_, is_welcome ? 1 : sizeof message_)) {
    case Inbox::Result::kPartial:
      return Result::kPending;
    case Inbox::Result::kClosed:
      return Result::kRejected;
    case Inbox::Result::kComplete:
      break;
  }
  if (is_welcome) {
    state_ = State::kDone;
    return Result::kAccepted;
  }
  const State before = state_;
  const bool is_member = before == State::kAwaitHello    ? on_hello()
                         : before == State::kAwaitAnswer ? on_answer()
                                                         : on_proof();
  if (!is_member) return Result::kRejected;
  return state_ == State::kDone ? Result::kAccepted : Result::kPending;
}

Handshake::Result Handshake::advance() {
  const Result result = step();
  if (result == Result::kRejected) socket_.reset();
  return result;
}

}  // namespace tessera::gloo_comm
