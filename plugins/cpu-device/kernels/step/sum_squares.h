// The exact sum of squares of float32 values, in parts of a block that float64 adds without rounding.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cpu-device/kernels/simd.h"
#include "tessera/accumulator.hpp"

namespace tessera::cpu {

/// Elements of one call of sum_squares_window. See there for what depends on it.
inline constexpr size_t kSquaresBlock = 1024;
/// Exponents of one call: 20 powers of two.
inline constexpr uint32_t kWindowExponents = 20;
inline constexpr uint32_t kMagnitude = 0x7fffffffu;  // a float's bits without the sign
inline constexpr uint32_t kInfinity = 0x7f800000u;

TESSERA_SIMD_DECLARE(
    /// The largest magnitude below `bound` as bits of a float; 0 if there is none.
    uint32_t largest_magnitude(const float* values, size_t num_elements, uint32_t bound);
    /// Sums the squares of the values whose magnitude lies in [first, bound): the sum is *high + *low exactly if
    /// num_elements <= kSquaresBlock and all exponents of that range lie in (exponent - kWindowExponents, exponent].
    /// `exponent` is the biased exponent of a float, >= 1, where denormals count as 1.
    void sum_squares_window(const float* values, size_t num_elements, uint32_t first, uint32_t bound, uint32_t exponent,
                            double* high, double* low);
    /// The same for a block of which all values, zeros aside, lie in that range; false when they do not: then the
    /// results mean nothing.
    bool sum_squares_within(const float* values, size_t num_elements, uint32_t first, uint32_t bound, uint32_t exponent,
                            double* high, double* low);)

/// Magnitudes from `first` on, below `bound`; `exponent` is their largest exponent.
struct ExponentWindow {
  uint32_t exponent, first, bound;

  explicit ExponentWindow(uint32_t largest_exponent, uint32_t limit = kInfinity)
      : exponent(largest_exponent),
        first(exponent > kWindowExponents ? (exponent - kWindowExponents + 1) << 23 : 0),
        bound(std::min((exponent + 1) << 23, limit)) {}
};

/// Adds squares of values to `limbs`, exactly. Used by one thread.
class SquaresSum {
 public:
  explicit SquaresSum(AccumulatorView limbs) : limbs_(limbs) {}
  /// `limbs` are carried on return if they were on entry.
  void add(const float* values, size_t num_elements);

 private:
  void add_block(const float* block, size_t num_elements);
  void add_from_the_top(const float* block, size_t num_elements);
  void take();

  const decltype(&simd_baseline::largest_magnitude) largest_ = TESSERA_SIMD_CHOOSE(largest_magnitude);
  const decltype(&simd_baseline::sum_squares_window) sum_window_ = TESSERA_SIMD_CHOOSE(sum_squares_window);
  const decltype(&simd_baseline::sum_squares_within) sum_within_ = TESSERA_SIMD_CHOOSE(sum_squares_within);
  AccumulatorView limbs_;
  ExponentWindow likely_{1};
  double high_ = 0, low_ = 0;
};

}  // namespace tessera::cpu
