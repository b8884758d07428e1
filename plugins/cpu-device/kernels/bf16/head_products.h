// The products of the head for a chunk of tokens, over blocks of the vocabulary: every operand is a dense matrix.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>

#include "cpu-device/kernels/bf16/tiles.h"

namespace tessera::cpu {

class HeadProducts {
 public:
  static constexpr uint64_t kBlockColumns = 1024;  // exp_sum's too: sums over blocks are those over whole rows
  static constexpr uint64_t kMaxGradientRows = 64;

  HeadProducts(uint64_t columns, uint64_t vocabulary) : columns_(columns), vocabulary_(vocabulary) {}
  /// Makes the products for chunks of that many tokens; before they are run.
  void prepare(uint64_t num_tokens, bool with_gradients);

  uint64_t num_blocks() const { return (vocabulary_ + kBlockColumns - 1) / kBlockColumns; }
  /// The first token of the vocabulary in a block, and how many there are.
  uint64_t begin(uint64_t block) const { return block * kBlockColumns; }
  uint64_t size(uint64_t block) const { return std::min(kBlockColumns, vocabulary_ - begin(block)); }
  /// Elements of a chunk's logits before this block.
  uint64_t offset(uint64_t num_tokens, uint64_t block) const { return num_tokens * begin(block); }
  /// How the rows of a chunk's input gradient are shared out.
  static EqualParts gradient_rows(uint64_t num_tokens) { return {num_tokens, kMaxGradientRows}; }

  /// logits[N,size] = x[N,C] table[V,C]^T, of one block.
  void multiply(uint64_t num_tokens, uint64_t block, const uint16_t* x, const uint16_t* table, float* logits) const;
  /// The block's rows of dtable[V,C] (+)= dlogits[N,size]^T x[N,C].
  void table_gradient(uint64_t num_tokens, uint64_t block, const uint16_t* dlogits, const uint16_t* x, bool accumulate,
                      float* dtable) const;
  /// The rows of dx[N,C] in these parts of gradient_rows() (+)= dlogits[N,size] table[V,C], of one block.
  void input_gradient(uint64_t num_tokens, uint64_t first_part, uint64_t last_part, uint64_t block,
                      const uint16_t* dlogits, const uint16_t* table, bool accumulate, float* dx) const;

 private:
  enum class Kind { kLogits, kTableGradient, kInputGradient };
  using Key = std::tuple<Kind, uint64_t, uint64_t, bool>;  // rows of x, columns of a block, accumulate
  Bf16Product make(const Key& key) const;
  const Bf16Product& of(Kind kind, uint64_t num_rows, uint64_t block, bool accumulate) const {
    return products_.at({kind, num_rows, size(block), accumulate});
  }

  const uint64_t columns_, vocabulary_;
  std::map<Key, Bf16Product> products_;
};

}  // namespace tessera::cpu
