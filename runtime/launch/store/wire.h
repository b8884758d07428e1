// Frames between the key-value store's clients and server. Numbers are 64 bits, little-endian.
//
// A connection begins with the greeting, in which each side proves that it knows the job's secret:
//
//     client                                       server
//     Hello {magic, N}                    ->
//                                         <-       Hello {magic, M}
//     Claim {proof, rank, pid, host}      ->       disconnects whoever has not come so far in time
//                                         <-       Answer {proof, kind}; a Reply behind kRefused
//
// N and M are random. A proof is HMAC-SHA256 with the secret as key over a label of its side and of this version, N, M,
// who the client is, and the server's answer. So what was recorded is worth nothing in another connection, and what one
// side says cannot be sent back to it as the other's. After kWelcome: a Request, a Reply, and so on.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "launch/participant.h"

namespace tessera::host::wire {

static_assert(std::endian::native == std::endian::little, "the frames are memory as it is");

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
inline constexpr uint64_t kClose = 4;    ///< the value is the reason; the key is not empty and not read
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

/// A frame as it travels.
template <class Frame>
std::string_view bytes_of(const Frame& frame) {
  return {reinterpret_cast<const char*>(&frame), sizeof frame};
}
std::string request(uint64_t operation, std::string_view key, std::string_view value, int64_t argument);
std::string reply(int64_t status, std::string_view payload);

/// From the system; throws UNAVAILABLE when it gives none.
Bytes32 random_bytes();
Claim claim_of(const Participant& who);
Participant participant_of(const Claim& claim);

/// The proofs of one connection.
struct Proofs {
  std::string_view secret;
  const Bytes32& client_nonce;
  const Bytes32& server_nonce;

  Bytes32 client(const Claim& claim) const;
  Bytes32 server(const Claim& claim, uint64_t kind) const;
};
/// In constant time.
bool is_equal(const Bytes32& a, const Bytes32& b);

}  // namespace tessera::host::wire
