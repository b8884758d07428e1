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
// Let all squares be below 2^q, q = 2 (exponent - 127) + 2. Adding and subtracting the splitter rounds a square to a
// multiple of 2^(q-42), which is its high part; 1024 of them sum to at most 2^(q+10), 52 bits. The low parts are at
// most 2^(q-43) each, 2^(q-33) in sum, and multiples of the last bit of the smallest square, at least 2^(2 (exponent -
// 19 - 150)) = 2^(q-86), 53 bits. So no addition rounds, and their order does not matter. A square is exact too, 48
// bits, so that with or without a fused multiply-add the bits are the same.
namespace {

double splitter_of(uint32_t exponent) {
  const int q = 2 * (static_cast<int>(exponent) - 127) + 2;
  return __builtin_ldexp(1.5, q - 42 + 52);
}

/// x * x + y
inline double square_plus(double x, double y) {
#ifdef __FMA__
  return __builtin_fma(x, x, y);
#else
  return x * x + y;
#endif
}

}  // namespace

void sum_squares_window(const float* values, size_t num_elements, uint32_t first, uint32_t bound, uint32_t exponent,
                        double* high, double* low) {
  const double splitter = splitter_of(exponent);
  double sum_of_highs = 0, sum_of_lows = 0;
#pragma omp simd reduction(+ : sum_of_highs, sum_of_lows)
  for (size_t i = 0; i < num_elements; ++i) {
    const uint32_t magnitude = magnitude_of(values + i);
    const double x = float_of(magnitude >= first && magnitude < bound ? magnitude : 0);
    const double part = square_plus(x, splitter) - splitter;
    sum_of_highs += part;
    sum_of_lows += square_plus(x, -part);
  }
  *high = sum_of_highs;
  *low = sum_of_lows;
}

bool sum_squares_within(const float* values, size_t num_elements, uint32_t first, uint32_t bound, uint32_t exponent,
                        double* high, double* low) {
  const double splitter = splitter_of(exponent);
  double sum_of_highs = 0, sum_of_lows = 0;
  uint32_t largest = 0, smallest = UINT32_MAX;  // the smallest that is not zero, less 1
#pragma omp simd reduction(+ : sum_of_highs, sum_of_lows) reduction(max : largest) reduction(min : smallest)
  for (size_t i = 0; i < num_elements; ++i) {
    const uint32_t magnitude = magnitude_of(values + i);
    largest = largest > magnitude ? largest : magnitude;
    smallest = smallest < magnitude - 1 ? smallest : magnitude - 1;
    const double x = values[i];
    const double part = square_plus(x, splitter) - splitter;
    sum_of_highs += part;
    sum_of_lows += square_plus(x, -part);
  }
  *high = sum_of_highs;
  *low = sum_of_lows;
  return largest < bound && (smallest == UINT32_MAX || smallest + 1 >= first);
}

}  // namespace tessera::cpu::TESSERA_SIMD
