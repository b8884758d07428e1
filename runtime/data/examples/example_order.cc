// The order of an epoch is a pseudorandom permutation, computed element by element: a Feistel network over the least
// even number of bits that holds all examples, with Philox as its round function. An index that is mapped beyond the
// examples is mapped again until it is not ("cycle walking": Black and Rogaway, "Ciphers with arbitrary finite
// domains", 2002), less than four times on average.

#include "data/examples/example_order.h"

#include <bit>
#include <cassert>
#include <utility>
#include <vector>

#include "model/philox.h"

namespace tessera::host {
namespace {

constexpr uint32_t kRounds = 8;

uint32_t low_word(uint64_t value) {
  return static_cast<uint32_t>(value);
}
uint32_t high_word(uint64_t value) {
  return static_cast<uint32_t>(value >> 32);
}

}  // namespace

uint32_t shuffled(uint64_t seed, uint64_t epoch, uint32_t num, uint32_t i) {
  assert(i < num);
  const int half_bits = (std::bit_width(num - 1) + 1) / 2;
  const uint32_t mask = (uint32_t{1} << half_bits) - 1;
  uint64_t place = i;
  do {
    auto left = static_cast<uint32_t>(place >> half_bits), right = static_cast<uint32_t>(place) & mask;
    for (uint32_t round = 0; round < kRounds; ++round) {
      const uint32_t mixed =
          philox4x32({right, round, low_word(epoch), high_word(epoch)}, {low_word(seed), high_word(seed)})[0];
      left = std::exchange(right, left ^ (mixed & mask));
    }
    place = uint64_t{left} << half_bits | right;
  } while (place >= num);
  return static_cast<uint32_t>(place);
}

ExampleOrder::ExampleOrder(const ExampleSource& source, int64_t batch, int64_t data_ranks, uint64_t seed)
    : source_(source),
      batch_(static_cast<uint64_t>(batch)),
      step_examples_(batch_ * static_cast<uint64_t>(data_ranks)),
      seed_(seed) {
  assert(batch > 0 && data_ranks > 0 && source.num_examples() > 0);
}

void ExampleOrder::read(int64_t data_rank, std::span<float> features, std::span<int32_t> labels) const {
  assert(labels.size() == batch_);
  const uint64_t num = source_.num_examples();
  uint64_t position = position_ + static_cast<uint64_t>(data_rank) * batch_;
  std::vector<uint32_t> examples(labels.size());
  for (uint32_t& example : examples) {
    example = shuffled(seed_, position / num, static_cast<uint32_t>(num), static_cast<uint32_t>(position % num));
    ++position;
  }
  source_.read(examples, features, labels);
}

}  // namespace tessera::host
