// SPDX-License-Identifier: Apache-2.0
// Sums that do not depend on order: int64[TSR_ACCUMULATOR_LIMBS] as tessera/device.h defines them. Limb 0 counts
// addends that are not finite; limb k >= 1 counts units of 2^(32 (k-1) - 298). Every float32, and the square of every
// float32, is a whole number of the smallest unit, so each addition is exact. Accumulators of ranks are summed as
// int64.
//
// This is the long accumulator of Kulisch, cut to what float32 needs: the smallest square is (2^-149)^2 = 2^-298, hence
// the unit; 19 limbs of 32 bits reach to 2^310, and the largest square is below 2^256, so 2^54 of them fit. Limbs are
// 64 bits wide with 32 in use, so carries wait: adding is one integer addition a limb, in any order, on any number of
// threads and ranks. The norm of all gradients decides clipping and whether fp16 skips a step; with a sum that depended
// on order, ranks or strategies would disagree.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "tessera/device.h"

// Marks functions that a GPU's kernels call too, so that devices agree to the bit.
#ifdef __CUDACC__
#define TESSERA_HOST_DEVICE __host__ __device__
#else
#define TESSERA_HOST_DEVICE
#endif

namespace tessera {

using Accumulator = std::array<int64_t, TSR_ACCUMULATOR_LIMBS>;
using AccumulatorView = std::span<int64_t, TSR_ACCUMULATOR_LIMBS>;
using ConstAccumulatorView = std::span<const int64_t, TSR_ACCUMULATOR_LIMBS>;
/// What CLIP reads: limbs and run words.
using Squares = std::array<int64_t, TSR_SQUARES_WORDS>;
using ConstSquaresView = std::span<const int64_t, TSR_SQUARES_WORDS>;

inline constexpr int kAccumulatorUnitExponent = -298;

/// The limbs of a double: part[j] is added to limb + j.
struct LimbParts {
  int limb;
  int64_t part[3];
};

/// Splits `value` exactly: any float32, or any sum of float32 and their squares that a double holds without rounding,
/// below 2^290. Infinities and NaNs add one to limb 0. |part[j]| < 2^32.
TESSERA_HOST_DEVICE inline LimbParts split(double value) noexcept {
  const auto bits = std::bit_cast<uint64_t>(value);
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff);
  if (exponent == 0x7ff) return {0, {1, 0, 0}};
  if (exponent == 0) return {1, {0, 0, 0}};                         // zero: denormal doubles are smaller than the unit
  uint64_t mantissa = (bits & 0xfffffffffffff) | 0x10000000000000;  // 53 bits with the implicit one
  int position = exponent - 1075 - kAccumulatorUnitExponent;        // of the mantissa's last bit, in units
  if (position < 0) {
    mantissa >>= -position;  // zeros fall out
    position = 0;
  }
  // The mantissa, shifted by up to 31 bits, covers at most 84 bits: three limbs.
  const int shift = position % 32;
  const auto with_sign = [negative = bits >> 63 != 0](uint64_t part) {
    return negative ? -static_cast<int64_t>(part) : static_cast<int64_t>(part);
  };
  return {1 + position / 32,
          {with_sign(mantissa << shift & 0xffffffff), with_sign(mantissa >> (32 - shift) & 0xffffffff),
           with_sign(mantissa >> 32 >> (32 - shift))}};
}

/// Adds `value` as split takes it. Carry after at most 2^30 additions: each adds less than 2^32 to a limb of 63 bits.
TESSERA_HOST_DEVICE inline void accumulate(AccumulatorView limbs, double value) noexcept {
  const LimbParts parts = split(value);
  for (int j = 0; j < 3; ++j)
    limbs[static_cast<size_t>(parts.limb + j)] += parts.part[j];
}

/// Adds value * value exactly.
TESSERA_HOST_DEVICE inline void accumulate_square(AccumulatorView limbs, float value) noexcept {
  accumulate(limbs, static_cast<double>(value) * static_cast<double>(value));  // 2 * 24 bits: exact
}

/// Adds another accumulator, limb by limb: what an all_reduce of int64 does, which is why ranks need no other op.
TESSERA_HOST_DEVICE inline void accumulate(AccumulatorView limbs, ConstAccumulatorView other) noexcept {
  for (size_t k = 0; k < limbs.size(); ++k)
    limbs[k] += other[k];
}

/// Brings every limb but the last into [0, 2^32); the value stays. The last has the sign. Afterwards equal sums have
/// equal limbs, so results can be compared as bytes.
TESSERA_HOST_DEVICE inline void carry(AccumulatorView limbs) noexcept {
  for (size_t k = 1; k + 1 < limbs.size(); ++k) {
    limbs[k + 1] += limbs[k] >> 32;
    limbs[k] &= 0xffffffff;
  }
}

/// The sum as a double, exact up to the last bit, carried or not; NaN if an addend was not finite.
TESSERA_HOST_DEVICE inline double decode(ConstAccumulatorView limbs) noexcept {
  if (limbs[0] != 0) return std::numeric_limits<double>::quiet_NaN();
  Accumulator carried;
  for (size_t k = 0; k < carried.size(); ++k)
    carried[k] = limbs[k];
  carry(carried);
  const bool negative = carried.back() < 0;
  if (negative) {  // decode the magnitude: adding from small to large is exact only with limbs of one sign
    for (int64_t& limb : carried)
      limb = -limb;
    carry(carried);
  }
  double sum = 0;
  for (size_t k = 1; k < carried.size(); ++k)  // from small to large
    sum += std::ldexp(static_cast<double>(carried[k]), 32 * (static_cast<int>(k) - 1) + kAccumulatorUnitExponent);
  return negative ? -sum : sum;
}

}  // namespace tessera
