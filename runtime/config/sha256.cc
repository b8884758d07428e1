#include "config/sha256.h"

#include <openssl/evp.h>

#include "tessera/error.hpp"

namespace tessera {

std::string sha256_hex(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int num_bytes = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest, &num_bytes, EVP_sha256(), nullptr) != 1)
    throw Error(TSR_E_INTERNAL, "OpenSSL could not compute a SHA-256; check its installation");
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < num_bytes; ++i)
    text += {kDigits[digest[i] >> 4], kDigits[digest[i] & 15]};
  return text;
}

}  // namespace tessera
