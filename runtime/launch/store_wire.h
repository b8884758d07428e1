// Frames between the key-value store's clients and server. Numbers are 64 bits, little-endian.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>

namespace tessera::wire {

static_assert(std::endian::native == std::endian::little, "the frames are memory as it is");

inline constexpr uint64_t kSet = 1;
inline constexpr uint64_t kGet = 2;
inline constexpr uint64_t kAdd = 3;

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

/// The first frame of a connection: magic and hashed secret. The server answers kWelcome.
std::string hello(const std::string& secret);
inline constexpr size_t kHelloBytes = 8 + 64;
inline constexpr char kWelcome = 'W';

}  // namespace tessera::wire
