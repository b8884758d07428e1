// The exact sum of squares of float32 values, in parts of a block that float64 adds without rounding.
#pragma once

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
                            double* high, double* low);)

/// Adds the squares of `values` to `limbs`, exactly. Carried on return if it was on entry.
void sum_squares(const float* values, size_t num_elements, AccumulatorView limbs);

}  // namespace tessera::cpu
