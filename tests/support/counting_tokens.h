#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "data/token_source.h"

namespace tessera::testing {

/// Token i is i, so a token tells its position.
class CountingTokens : public host::TokenSource {
 public:
  explicit CountingTokens(uint64_t num_tokens) : num_tokens_(num_tokens) {}
  uint64_t num_tokens() const override { return num_tokens_; }
  void read(uint64_t offset, std::span<int32_t> out) const override {
    EXPECT_LE(offset + out.size(), num_tokens_) << "read beyond the data";
    std::iota(out.begin(), out.end(), static_cast<int32_t>(offset));
  }
  std::string description() const override { return "counting"; }
  bool is_text() const override { return false; }
  std::string doubt() const override { return ""; }

 private:
  uint64_t num_tokens_;
};

}  // namespace tessera::testing
