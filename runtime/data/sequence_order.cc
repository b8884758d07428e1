// One epoch of data for five sequences; the next one cuts it elsewhere:
//
//     tokens   | rest | 3 | 0 | 4 | 1 | 2 | rest |
//                     ^ the epoch's offset
//
// So a model also sees what a cut has separated, as with windows at random, and yet every token about once an epoch. A
// sequence is found by its number alone: nothing is stored, and a saved position continues anywhere.

#include "data/sequence_order.h"

#include <algorithm>
#include <cassert>
#include <vector>

#include "base/concat.h"
#include "data/shuffle.h"
#include "tessera/error.hpp"

namespace tessera::host {

SequenceOrder::SequenceOrder(const TokenSource& source, int64_t batch, int64_t seq, int64_t data_ranks, uint64_t seed)
    : source_(source),
      batch_(static_cast<uint64_t>(batch)),
      seq_(static_cast<uint64_t>(seq)),
      data_ranks_(static_cast<uint64_t>(data_ranks)),
      seed_(seed) {
  assert(batch > 0 && seq > 0 && data_ranks > 0);
  const uint64_t num_tokens = source.num_tokens();
  if (num_tokens <= seq_)
    throw Error(TSR_E_INVALID_ARGUMENT,
                concat(source.description(), " is too short: a sequence of ", counted(seq, "token"),
                       " and its last target need ", seq_ + 1, "; use more data, or a smaller --seq-len"));
  num_sequences_ = std::max<uint64_t>(1, (num_tokens - seq_) / seq_);
}

uint64_t SequenceOrder::begin_of(uint64_t sequence) const {
  const uint64_t epoch = sequence / num_sequences_, rest = source_.num_tokens() - 1 - num_sequences_ * seq_;
  return random_offset(seed_, epoch, rest + 1) +
         shuffled(seed_, epoch, num_sequences_, sequence % num_sequences_) * seq_;
}

void SequenceOrder::read(int64_t data_rank, std::span<int32_t> inputs, std::span<int32_t> targets) const {
  assert(inputs.size() == batch_ * seq_ && targets.size() == inputs.size());
  std::vector<int32_t> tokens(seq_ + 1);
  for (uint64_t row = 0; row < batch_; ++row) {
    source_.read(begin_of(next_ + static_cast<uint64_t>(data_rank) * batch_ + row), tokens);
    const auto begin = static_cast<std::ptrdiff_t>(row * seq_);
    std::copy(tokens.begin(), tokens.end() - 1, inputs.begin() + begin);
    std::copy(tokens.begin() + 1, tokens.end(), targets.begin() + begin);
  }
}

}  // namespace tessera::host
