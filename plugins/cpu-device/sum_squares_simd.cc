#include "cpu-device/sum_squares.h"

namespace tessera::cpu::TESSERA_SIMD {
namespace {

constexpr size_t kLanes = 16;

uint32_t magnitude_of(const float* value) {
  uint32_t bits;
  __builtin_memcpy(&bits, value, sizeof bits);
  return bits & kMagnitude;
}

}  // namespace

uint32_t largest_magnitude(const float* values, size_t num_elements, uint32_t bound) {
  uint32_t largest = 0;
  for (size_t i = 0; i < num_elements; ++i) {
    const uint32_t magnitude = magnitude_of(values + i);
    const uint32_t candidate = magnitude < bound ? magnitude : 0;
    largest = candidate > largest ? candidate : largest;
  }
  return largest;
}

// Let all squares be below 2^q, q = 2 (exponent - 127) + 2. Adding and subtracting `splitter` rounds a square to a
// multiple of 2^(q-42), which is its high part; 1024 of them sum to at most 2^(q+10), 52 bits. The low parts are at
// most 2^(q-43) each, 2^(q-33) in sum, and multiples of the last bit of the smallest square, at least 2^(2 (exponent -
// 19 - 150)) = 2^(q-86), 53 bits. So no addition rounds, and their order does not matter.
void sum_squares_window(const float* values, size_t num_elements, uint32_t first, uint32_t bound, uint32_t exponent,
                        double* high, double* low) {
  const int q = 2 * (static_cast<int>(exponent) - 127) + 2;
  const double splitter = __builtin_ldexp(1.5, q - 42 + 52);
  double highs[kLanes] = {}, lows[kLanes] = {};
  const auto add = [&](size_t lane, const float* value) {
    const uint32_t magnitude = magnitude_of(value);
    const double x = magnitude >= first && magnitude < bound ? *value : 0.0f;
    const double square = x * x;
    const double part = (square + splitter) - splitter;
    highs[lane] += part;
    lows[lane] += square - part;
  };
  const size_t num_whole = num_elements / kLanes * kLanes;
  for (size_t i = 0; i < num_whole; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane)
      add(lane, values + i + lane);
  for (size_t i = num_whole; i < num_elements; ++i)
    add(i - num_whole, values + i);
  *high = *low = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    *high += highs[lane];
    *low += lows[lane];
  }
}

}  // namespace tessera::cpu::TESSERA_SIMD
