// Token ids.
#pragma once

#include <cstdint>

namespace tessera::cpu {

/// Throws INVALID_ARGUMENT with position and value of the first token outside of [0, vocabulary).
/// `what` names the tokens: "token", "target".
void check_tokens(const int32_t* tokens, uint64_t num_tokens, uint64_t vocabulary, const char* what);

}  // namespace tessera::cpu
