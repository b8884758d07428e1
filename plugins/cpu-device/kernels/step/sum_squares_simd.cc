// The loops of sum_squares.cc, for every instruction set. They sum the squares within a window of exponents exactly,
// in two doubles: the order of the additions does not matter, so vectors of any width give the same bits.
#include "cpu-device/kernels/step/sum_squares.h"

namespace tessera::cpu::TESSERA_SIMD {
namespace {

uint32_t magnitude_of(const float* value) {
  uint32_t bits;
  __builtin_memcpy(&bits, value, sizeof bits);
  return bits & kMagnitude;
}

float float_of(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace

uint32_t largest_magnitude(const float* values, size_t num_elements, uint32_t bound) {
  uint32_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (size_t i = 0; i < num_elements; ++i) {
    const uint32_t magnitude = magnitude_of(values + i);
    const uint32_t candidate = magnitude < bound ? magnitude : 0;
    largest = largest > candidate ? largest : candidate;
  }
  return largest;
}

// The splitting is Dekker's: adding a large constant and taking it away again leaves the part of a number above a fixed
// bit, and the difference is the rest, both exactly. The compiler must not simplify that, so no -ffast-math here.
// Let all squares be below 2^q, q = 2 (exponent - 127) + 2. Adding and subtracting `splitter` rounds a square to a
// multiple of 2^(q-42), which is its high part; 1024 of them sum to at most 2^(q+10), 52 bits. The low parts are at
// most 2^(q-43) each, 2^(q-33) in sum, and multiples of the last bit of the smallest square, at least 2^(2 (exponent -
// 19 - 150)) = 2^(q-86), 53 bits. So no addition rounds, and their order does not matter.
void sum_squares_window(const float* values, size_t num_elements, uint32_t first, uint32_t bound, uint32_t exponent,
                        double* high, double* low) {
  const int q = 2 * (static_cast<int>(exponent) - 127) + 2;
  const double splitter = __builtin_ldexp(1.5, q - 42 + 52);
  double sum_of_highs = 0, sum_of_lows = 0;
#pragma omp simd reduction(+ : sum_of_highs, sum_of_lows)
  for (size_t i = 0; i < num_elements; ++i) {
    const uint32_t magnitude = magnitude_of(values + i);
    const double x = float_of(magnitude >= first && magnitude < bound ? magnitude : 0);
    const double square = x * x;
    const double part = (square + splitter) - splitter;
    sum_of_highs += part;
    sum_of_lows += square - part;
  }
  *high = sum_of_highs;
  *low = sum_of_lows;
}

}  // namespace tessera::cpu::TESSERA_SIMD
