// Byte-pair encoding of one word.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tessera::host {

/// Two tokens that become one. Earlier merges come first.
struct BpeMerge {
  int32_t left = 0, right = 0, merged = 0;
};

/// Splits words into tokens: starting from bytes, the neighbors with the earliest merge are joined, the first ones of
/// equal merges first, until none is left (Sennrich et al. 2016, over bytes). Words are cached. [control-thread]
class Bpe {
 public:
  /// `of_byte`: the token of each byte; -1: none.
  Bpe(const std::array<int32_t, 256>& of_byte, const std::vector<BpeMerge>& merges);

  /// Appends the tokens of `word`. Throws INVALID_ARGUMENT for a byte that has no token.
  void encode(std::string_view word, std::vector<int32_t>& tokens) const;

 private:
  struct Rank {
    int32_t rank = 0, merged = 0;
  };
  const Rank* find(int32_t left, int32_t right) const;
  std::vector<int32_t> merge(std::string_view word) const;

  std::array<int32_t, 256> of_byte_;
  std::unordered_map<uint64_t, Rank> ranks_;  // by both tokens
  mutable std::unordered_map<std::string, std::vector<int32_t>> cache_;
};

}  // namespace tessera::host
