// Frames as bytes, and the proofs of the handshake, by OpenSSL.
// Structs are sent byte for byte. They have no padding, since every field is 8 bytes long or an array of bytes, and
// both sides are little-endian (wire.h asserts it).

#include "launch/store/wire.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host::wire {
namespace {

template <size_t N, class T>
std::string_view text_of(const std::array<T, N>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), N};
}

// Every part but the label and the last has a fixed length, so two messages are equal only if all their parts are.
Bytes32 proof(const Proofs& proofs, std::string_view label, const Claim& claim, std::string_view last) {
  std::string message(label);
  message.append(text_of(proofs.client_nonce)).append(text_of(proofs.server_nonce));
  message.append(bytes_of(claim.rank)).append(bytes_of(claim.pid)).append(text_of(claim.host)).append(last);
  Bytes32 result;
  unsigned int num_bytes = 0;
  if (!::HMAC(EVP_sha256(), proofs.secret.data(), static_cast<int>(proofs.secret.size()),
              reinterpret_cast<const unsigned char*>(message.data()), message.size(), result.data(), &num_bytes))
    throw Error(TSR_E_INTERNAL, "OpenSSL could not compute an HMAC; check its installation");
  return result;
}

}  // namespace

std::string request(uint64_t operation, std::string_view key, std::string_view value, int64_t argument) {
  const Request header{operation, key.size(), value.size(), argument};
  return std::string(bytes_of(header)).append(key).append(value);
}

std::string reply(int64_t status, std::string_view payload) {
  const Reply header{status, payload.size()};
  return std::string(bytes_of(header)).append(payload);
}

Bytes32 random_bytes() {
  Bytes32 bytes;
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw Error(TSR_E_UNAVAILABLE, concat("cannot get random numbers from the system: ", std::strerror(errno)));
  return bytes;
}

Claim claim_of(const Participant& who) {
  Claim claim;
  claim.rank = who.rank;
  claim.pid = who.pid;
  // A longer name is cut, and the zero at the end stays.
  who.host.copy(claim.host.data(), claim.host.size() - 1);
  return claim;
}

Participant participant_of(const Claim& claim) {
  const auto end = std::find(claim.host.begin(), claim.host.end(), '\0');
  return {static_cast<int>(claim.rank), claim.pid, std::string(claim.host.begin(), end)};
}

Bytes32 Proofs::client(const Claim& claim) const {
  return proof(*this, "tessera store 2 client", claim, "");
}

Bytes32 Proofs::server(const Claim& claim, uint64_t kind) const {
  return proof(*this, "tessera store 2 server", claim, bytes_of(kind));
}

bool is_equal(const Bytes32& a, const Bytes32& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace tessera::host::wire
