// SHA-256 by OpenSSL, which uses the processor's SHA instructions if it has them: ranks hash plugins, programs and up
// to 64 MiB of weights at every start.

#include "base/sha256.h"

#include <openssl/evp.h>

#include "tessera/error.hpp"

namespace tessera::host {
namespace {

void require(bool done) {
  if (!done) throw Error(TSR_E_INTERNAL, "OpenSSL could not compute a SHA-256; check its installation");
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const noexcept {
  EVP_MD_CTX_free(context);
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  require(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

void Sha256::add(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int num_bytes = 0;
  require(EVP_DigestFinal_ex(context_.get(), digest, &num_bytes) == 1);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < num_bytes; ++i)
    text += {kDigits[digest[i] >> 4], kDigits[digest[i] & 15]};
  return text;
}

std::string sha256_hex(std::string_view bytes) {
  Sha256 hash;
  hash.add(std::as_bytes(std::span(bytes)));
  return hash.hex();
}

}  // namespace tessera::host
