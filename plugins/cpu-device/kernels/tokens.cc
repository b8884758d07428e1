// Tokens are data, so what is wrong with them fails the stream in a sentence and not the process by a wild read.
#include "cpu-device/kernels/tokens.h"

#include <string>

#include "tessera/error.hpp"

namespace tessera::cpu {

void check_tokens(const int32_t* tokens, uint64_t num_tokens, uint64_t vocabulary, const char* what) {
  for (uint64_t n = 0; n < num_tokens; ++n)
    if (tokens[n] < 0 || static_cast<uint64_t>(tokens[n]) >= vocabulary)
      throw Error(TSR_E_INVALID_ARGUMENT, std::string(what) + " " + std::to_string(tokens[n]) + " at position " +
                                              std::to_string(n) + " of the micro-batch is not in [0, " +
                                              std::to_string(vocabulary) +
                                              "); the data does not fit the model's vocabulary");
}

}  // namespace tessera::cpu
