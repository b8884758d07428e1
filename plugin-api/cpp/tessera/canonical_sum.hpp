// SPDX-License-Identifier: Apache-2.0
// The canonical reduction of n operands: for each element the balanced tree over the operands, split at the largest
// power of two below n: ((r0+r1)+(r2+r3))+r4. f16 and bf16 are added in float32, f32 in float32, f64 in float64,
// rounded once to the output; integers wrap. An element's result depends on nothing but the n operands of that element.
//
// Floating-point addition is not associative, so a ring, whose order depends on the slice, gives other bits for other
// bucket sizes. A fixed tree makes ddp and fsdp, threads and processes, large buckets and small agree to the bit, which
// is what lets tests compare them at all. The tree splits at a power of two so that a communicator may compute halves
// where they are and combine them: reducing {0..3} and {4..7} apart and then adding is the same tree.
//
// Cost: every operand is read once and the result written once; partial results take one block of kBlock elements per
// level of the recursion, on the stack. The alternative that is exact in any order, accumulator.hpp, needs 160 bytes
// per element; it is used for scalars.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <type_traits>

#include "tessera/communicator.h"
#include "tessera/error.hpp"
#include "tessera/half.hpp"

namespace tessera {
namespace canonical {

/// Elements are reduced in blocks of this many, whose partial results stay in the first level of cache.
inline constexpr size_t kBlock = 512;

/// How the elements of a dtype are stored, in what type they are added, and how one becomes the other.
template <class T>
struct Plain {
  using Stored = T;
  using Sum = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};
struct F16 {
  using Stored = uint16_t;
  using Sum = float;
  static float load(uint16_t value) { return f16_to_float(value); }
  static uint16_t store(float value) { return float_to_f16(value); }
};
struct Bf16 {
  using Stored = uint16_t;
  using Sum = float;
  static float load(uint16_t value) { return bf16_to_float(value); }
  static uint16_t store(float value) { return float_to_bf16(value); }
};

/// Integers are added as unsigned ones: they wrap, where signed overflow would be undefined.
struct Add {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }
};
/// A NaN operand makes the result NaN; of equal operands (-0 and 0) the earlier rank's.
struct Min {
  template <class T>
  static T apply(T a, T b) {
    return b < a || b != b ? b : a;
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) {
    return a < b || b != b ? b : a;
  }
};

/// Reduces `num_elements` <= kBlock elements of all operands, from element `offset` of each, into `out`. One and two
/// operands, and a right half of one, are handled without recursion: they are the leaves of every tree, and the whole
/// tree of the usual group of two.
template <class Type, class Op>
void reduce_block(std::span<const void* const> operands, size_t offset, size_t num_elements, typename Type::Sum* out) {
  using Sum = typename Type::Sum;
  const auto at = [&](size_t k) { return static_cast<const typename Type::Stored*>(operands[k]) + offset; };
  const auto* first = at(0);
  if (operands.size() == 1) {
    for (size_t i = 0; i < num_elements; ++i)
      out[i] = Type::load(first[i]);
    return;
  }
  if (operands.size() == 2) {
    const auto* second = at(1);
    for (size_t i = 0; i < num_elements; ++i)
      out[i] = Op::apply(Type::load(first[i]), Type::load(second[i]));
    return;
  }
  const size_t split = std::bit_ceil(operands.size()) / 2;
  reduce_block<Type, Op>(operands.first(split), offset, num_elements, out);
  if (split + 1 == operands.size()) {
    const auto* last = at(split);
    for (size_t i = 0; i < num_elements; ++i)
      out[i] = Op::apply(out[i], Type::load(last[i]));
    return;
  }
  alignas(64) Sum right[kBlock];
  reduce_block<Type, Op>(operands.subspan(split), offset, num_elements, right);
  for (size_t i = 0; i < num_elements; ++i)
    out[i] = Op::apply(out[i], right[i]);
}

template <class Type, class Op>
void reduce_all(std::span<const void* const> operands, void* out, uint64_t num_elements, bool average) {
  using Sum = typename Type::Sum;
  auto* result = static_cast<typename Type::Stored*>(out);
  const Sum divisor = static_cast<Sum>(operands.size());
  for (uint64_t offset = 0; offset < num_elements; offset += kBlock) {
    const size_t block = static_cast<size_t>(std::min<uint64_t>(kBlock, num_elements - offset));
    // The block is complete before anything is stored: `out` may be one of the operands.
    alignas(64) Sum sum[kBlock];
    reduce_block<Type, Op>(operands, offset, block, sum);
    if (average)
      for (size_t i = 0; i < block; ++i)
        sum[i] /= divisor;
    for (size_t i = 0; i < block; ++i)
      result[offset + i] = Type::store(sum[i]);
  }
}

template <class Type>
void reduce_type(uint32_t reduce, std::span<const void* const> operands, void* out, uint64_t num_elements) {
  switch (reduce) {
    case TSR_REDUCE_SUM:
      return reduce_all<Type, Add>(operands, out, num_elements, false);
    case TSR_REDUCE_MIN:
      return reduce_all<Type, Min>(operands, out, num_elements, false);
    case TSR_REDUCE_MAX:
      return reduce_all<Type, Max>(operands, out, num_elements, false);
    default:
      break;
  }
  if constexpr (std::is_floating_point_v<typename Type::Sum>)
    if (reduce == TSR_REDUCE_AVG) return reduce_all<Type, Add>(operands, out, num_elements, true);
  throw Error(TSR_E_UNSUPPORTED, "reduction " + std::to_string(reduce) + " is not defined for this dtype");
}

}  // namespace canonical

/// out[i] = the canonical reduction (TSR_REDUCE_*) of operands[0][i], operands[1][i], ... for i < num_elements; at
/// least one operand, in rank order. `out` is one of the operands or overlaps none. AVG divides the sum by the number
/// of operands, in the type of the sum. UNSUPPORTED for an average of integers and for unknown dtypes and reductions.
inline void reduce_range(tsr_dtype dtype, uint32_t reduce, std::span<const void* const> operands, void* out,
                         uint64_t num_elements) {
  using namespace canonical;
  switch (dtype) {
    case TSR_F32:
      return reduce_type<Plain<float>>(reduce, operands, out, num_elements);
    case TSR_F64:
      return reduce_type<Plain<double>>(reduce, operands, out, num_elements);
    case TSR_F16:
      return reduce_type<F16>(reduce, operands, out, num_elements);
    case TSR_BF16:
      return reduce_type<Bf16>(reduce, operands, out, num_elements);
    case TSR_I8:
      return reduce_type<Plain<int8_t>>(reduce, operands, out, num_elements);
    case TSR_I32:
      return reduce_type<Plain<int32_t>>(reduce, operands, out, num_elements);
    case TSR_I64:
      return reduce_type<Plain<int64_t>>(reduce, operands, out, num_elements);
    case TSR_U8:
      return reduce_type<Plain<uint8_t>>(reduce, operands, out, num_elements);
    case TSR_U16:
      return reduce_type<Plain<uint16_t>>(reduce, operands, out, num_elements);
    case TSR_U32:
      return reduce_type<Plain<uint32_t>>(reduce, operands, out, num_elements);
    default:
      throw Error(TSR_E_UNSUPPORTED, "dtype " + std::to_string(dtype) + " cannot be reduced");
  }
}

}  // namespace tessera
