// Token ids, and the part of the vocabulary that a table has rows of.
#pragma once

#include <cstdint>

#include "tessera/device.h"

namespace tessera::cpu {

/// Throws INVALID_ARGUMENT with position and value of the first token outside of [0, vocabulary).
/// `what` names the tokens: "token", "target".
void check_tokens(const int32_t* tokens, uint64_t num_tokens, uint64_t vocabulary, const char* what);

/// A table whose first `count` rows are those of the tokens from `begin` on, of `total` tokens; the rest is padding.
struct VocabularyPart {
  /// From the op's VOCAB_* attributes. Throws INVALID_ARGUMENT unless they are whole numbers, the rows of the tokens
  /// fit the table, and the tokens the vocabulary.
  explicit VocabularyPart(const tsr_op& op);

  /// The row of `token`, or -1 if it is not in this part.
  int64_t row_of(int32_t token) const {
    const int64_t row = int64_t{token} - begin;
    return row >= 0 && row < count ? row : -1;
  }

  int64_t begin, count, total;
};

}  // namespace tessera::cpu
