// The permutation is computed element by element: a Feistel network over the least even number of bits that holds all
// elements, with Philox as its round function. An index that is mapped beyond them is mapped again until it is not
// ("cycle walking": Black and Rogaway, "Ciphers with arbitrary finite domains", 2002), less than four times on average.
//
//     left | right    ->    right | left ^ philox(right, round, epoch; seed)      can be undone, so it permutes
//
// The numbers are part of the contract with checkpoints: another constant here gives a resumed run other data.

#include "data/shuffle.h"

#include <bit>
#include <cassert>
#include <utility>

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

uint64_t shuffled(uint64_t seed, uint64_t epoch, uint64_t num, uint64_t i) {
  assert(i < num);
  const int half_bits = (std::bit_width(num - 1) + 1) / 2;
  const auto mask = static_cast<uint32_t>((uint64_t{1} << half_bits) - 1);
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
  return place;
}

uint64_t random_offset(uint64_t seed, uint64_t epoch, uint64_t num) {
  assert(num > 0);
  // The round of a permutation is less than kRounds, so no permutation uses these words.
  const auto words = philox4x32({0, kRounds, low_word(epoch), high_word(epoch)}, {low_word(seed), high_word(seed)});
  return (uint64_t{words[1]} << 32 | words[0]) % num;
}

}  // namespace tessera::host
