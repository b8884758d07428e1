// An exact sum at the speed of memory. Adding each square to the accumulator would cost three integer additions an
// element; instead a block of 1024 values is summed in two doubles, which are exact as long as the exponents of its
// values lie within a window of 20 (sum_squares_simd.cc has the proof), and only those two go into the accumulator.
//
// Gradients of a block nearly always lie in one window. Others take one pass a window, from the largest exponents down,
// at most 13: float32 has 254 exponents. Values that are not finite are counted in limb 0 and left out of the rest.
#include "cpu-device/kernels/step/sum_squares.h"

#include <algorithm>

namespace tessera::cpu {

void sum_squares(const float* values, size_t num_elements, AccumulatorView limbs) {
  const auto largest = TESSERA_SIMD_CHOOSE(largest_magnitude);
  const auto sum_window = TESSERA_SIMD_CHOOSE(sum_squares_window);
  for (size_t begin = 0; begin < num_elements; begin += kSquaresBlock) {
    const float* block = values + begin;
    const size_t block_elements = std::min(kSquaresBlock, num_elements - begin);
    uint32_t bound = kMagnitude + 1;
    uint32_t magnitude = largest(block, block_elements, bound);
    if (magnitude >= kInfinity) {
      for (size_t i = 0; i < block_elements; ++i)
        if (!std::isfinite(block[i])) ++limbs[0];
      bound = kInfinity;
      magnitude = largest(block, block_elements, bound);
    }
    while (magnitude != 0) {  // from the largest exponents down; nearly always one window holds all
      const uint32_t exponent = std::max(magnitude >> 23, 1u);
      const uint32_t first = exponent > kWindowExponents ? (exponent - kWindowExponents + 1) << 23 : 0;
      double high, low;
      sum_window(block, block_elements, first, bound, exponent, &high, &low);
      accumulate(limbs, high);
      accumulate(limbs, low);
      bound = first;
      magnitude = largest(block, block_elements, bound);
    }
    carry(limbs);
  }
}

}  // namespace tessera::cpu
