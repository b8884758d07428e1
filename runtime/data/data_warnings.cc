// What is allowed and rarely meant; each is a warning and no error, since it may be meant: data that may be something
// else, text as bytes for a model with a vocabulary of words, and data so short that every step sees the same tokens.

#include "data/data_warnings.h"

#include "base/concat.h"

namespace tessera::host {
namespace {

constexpr int64_t kMaxOfBytes = 512;  // 256 bytes, and room for a few special tokens

// Empty unless every step trains on the same tokens.
std::string repetition(const TokenSource& data, const DataUse& use) {
  const auto num_tokens = static_cast<int64_t>(data.num_tokens());
  const int64_t num_windows = (num_tokens - 1) / use.micro_step_tokens;
  // Sequences in shuffled order can be taken several times in a micro-step.
  const int64_t used = num_windows ? num_windows * use.micro_step_tokens : num_tokens;
  const double per_step = static_cast<double>(use.grad_accum * use.micro_step_tokens) / static_cast<double>(used);
  const double per_run = per_step * static_cast<double>(use.steps);
  if (num_windows > use.grad_accum || per_run <= 1) return "";
  return concat("the data is short: every step trains on the same ", used, " of its ", num_tokens, " tokens",
                per_step > 1 ? concat(", ", per_step, " times") : "", ", and the run ", per_run,
                " times; use more data, or a smaller --batch-size, --seq-len or --grad-accum");
}

}  // namespace

std::vector<std::string> data_warnings(const TokenSource& data, const DataUse& use) {
  std::vector<std::string> warnings;
  if (const std::string doubt = data.doubt(); !doubt.empty()) warnings.push_back(doubt);
  if (data.is_text() && use.vocab > kMaxOfBytes)
    warnings.push_back(concat("the bytes of the text are its tokens, 256 of the ", use.vocab,
                              " that the model knows; a pretrained model does not know text in this form: write the "
                              "tokens of its own tokenizer as uint16 to a .bin (see docs/data.md)"));
  if (const std::string often = repetition(data, use); !often.empty()) warnings.push_back(often);
  return warnings;
}

}  // namespace tessera::host
