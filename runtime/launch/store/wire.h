// Frames between the key-value store's clients and server. Numbers are 64 bits, little-endian.
//
// A connection begins with a handshake, in which each side proves that it knows the job's secret:
//
//     client                                       server
//     Hello {magic, N}                    ->
//                                         <-       Hello {magic, M}
//     Claim {proof, rank, pid, host}      ->       disconnects clients that take too long to get here
//                                         <-       Answer {proof, kind}; after kRefused also a Reply
//
// N and M are random. A proof is an HMAC-SHA256 with the secret as key over a label of the side and protocol version,
// N, M, the client's identity, and the server's answer. So a recorded proof is useless in another connection, and one
// side's proof cannot be reflected as the other's. After kWelcome follow a Request, a Reply, and so on.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "launch/participant.h"

namespace tessera::host::wire {

static_assert(std::endian::native == std::endian::little, "frames are structs copied as they are");

using Bytes32 = std::array<unsigned char, 32>;

inline constexpr std::array<char, 8> kMagic = {'T', 'S', 'R', 'S', 'T', 'O', 'R', '2'};

struct Hello {
  std::array<char, 8> magic = kMagic;
  Bytes32 nonce{};
};

struct Claim {
  Bytes32 proof{};
  int64_t rank = -1;
  int64_t pid = 0;
  std::array<char, 256> host{};  ///< ends with a zero
};

inline constexpr uint64_t kWelcome = 1;
inline constexpr uint64_t kOtherSecret = 2;  ///< without a proof
inline constexpr uint64_t kRefused = 3;

struct Answer {
  Bytes32 proof{};
  uint64_t kind = 0;
};

inline constexpr uint64_t kSet = 1;
inline constexpr uint64_t kGet = 2;
inline constexpr uint64_t kAdd = 3;
inline constexpr uint64_t kClose = 4;    ///< the value is the reason; the key is ignored, and not empty
inline constexpr uint64_t kGoodbye = 5;  ///< likewise; has no reply

struct Request {  // then key, then value
  uint64_t operation;
  uint64_t key_num_bytes;
  uint64_t value_num_bytes;
  int64_t argument;  ///< get: timeout_ms; add: delta
};

struct Reply {  // then a value (get), eight bytes (add), or an error's text
  int64_t status;
  uint64_t num_bytes;
};

/// A frame as sent.
template <class Frame>
std::string_view bytes_of(const Frame& frame) {
  return {reinterpret_cast<const char*>(&frame), sizeof frame};
}
std::string request(uint64_t operation, std::string_view key, std::string_view value, int64_t argument);
std::string reply(int64_t status, std::string_view payload);

/// From the system's random number generator. Throws UNAVAILABLE.
Bytes32 random_bytes();
Claim claim_of(const Participant& who);
Participant participant_of(const Claim& claim);

/// Computes the proofs of one connection.
struct Proofs {
  std::string_view secret;
  const Bytes32& client_nonce;
  const Bytes32& server_nonce;

  Bytes32 client(const Claim& claim) const;
  Bytes32 server(const Claim& claim, uint64_t kind) const;
};
/// Compares in constant time.
bool is_equal(const Bytes32& a, const Bytes32& b);

}  // namespace tessera::host::wire
