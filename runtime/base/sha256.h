// SHA-256, for everything that ranks compare.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace tessera::host {

/// Hashes bytes that come in parts.
class Sha256 {
 public:
  Sha256();
  void add(std::span<const std::byte> bytes);
  /// The hash of all bytes added, as 64 lower-case hexadecimal digits. Call it once; add nothing after it.
  std::string hex();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const noexcept;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

/// 64 lower-case hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace tessera::host
