#include "cpu-device/kernels/tokens.h"

#include <cmath>
#include <string>

#include "cpu-device/kernels/operands.h"
#include "tessera/error.hpp"

namespace tessera::cpu {
namespace {

// As many tokens as an int32 tells apart.
bool is_number_of_tokens(double value) {
  return value >= 0 && value <= 0x1p31 && value == std::floor(value);
}

}  // namespace

void check_tokens(const int32_t* tokens, uint64_t num_tokens, uint64_t vocabulary, const char* what) {
  for (uint64_t n = 0; n < num_tokens; ++n)
    if (tokens[n] < 0 || static_cast<uint64_t>(tokens[n]) >= vocabulary)
      throw Error(TSR_E_INVALID_ARGUMENT, std::string(what) + " " + std::to_string(tokens[n]) + " at position " +
                                              std::to_string(n) + " of the micro-batch is not in [0, " +
                                              std::to_string(vocabulary) +
                                              "); the data does not fit the model's vocabulary");
}

VocabularyPart::VocabularyPart(const tsr_op& op) {
  const uint64_t num_rows = extent(op, TSR_DIM_VOCAB);
  const double first = op.attributes[TSR_ATTR_VOCAB_BEGIN], num_local = op.attributes[TSR_ATTR_VOCAB_COUNT];
  const double num_tokens = op.attributes[TSR_ATTR_VOCAB_TOTAL];
  if (!is_number_of_tokens(first) || !is_number_of_tokens(num_local) || !is_number_of_tokens(num_tokens) ||
      num_tokens == 0 || num_local > static_cast<double>(num_rows) || (num_local > 0 && first + num_local > num_tokens))
    throw Error(TSR_E_INVALID_ARGUMENT,
                "op " + std::to_string(op.kind) + " has VOCAB_BEGIN " + std::to_string(first) + ", VOCAB_COUNT " +
                    std::to_string(num_local) + " and VOCAB_TOTAL " + std::to_string(num_tokens) + " for a table of " +
                    std::to_string(num_rows) +
                    " rows; they must be whole, the count at most the rows, and the tokens within the total");
  begin = static_cast<int64_t>(first);
  count = static_cast<int64_t>(num_local);
  total = static_cast<int64_t>(num_tokens);
}

}  // namespace tessera::cpu
