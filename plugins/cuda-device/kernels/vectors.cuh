// Vectors of values: kNumLanes<T> consecutive values are read or written by one instruction of 16 bytes, where their
// address allows it. Included by .cu files only.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "cuda-device/kernels/alignment.h"
#include "cuda-device/kernels/values.cuh"

namespace tessera::cuda {

inline constexpr int kVectorBytes = 16;
template <class T>
inline constexpr int kNumLanes = kVectorBytes / static_cast<int>(sizeof(T));

/// The bits of kNumLanes<T> / 4 values, the first in the lowest.
template <class T>
__device__ inline uint32_t pack(const T* values) {
  if constexpr (sizeof(T) == 4)
    return std::bit_cast<uint32_t>(values[0]);
  else
    return std::bit_cast<uint16_t>(values[0]) | uint32_t{std::bit_cast<uint16_t>(values[1])} << 16;
}

/// The kNumLanes<T> values of 16 bytes.
template <class T>
__device__ inline void unpack(uint4 bits, float (&values)[kNumLanes<T>]) {
  T lanes[kNumLanes<T>];
  memcpy(lanes, &bits, sizeof bits);
#pragma unroll
  for (int i = 0; i < kNumLanes<T>; ++i)
    values[i] = to_float(lanes[i]);
}

/// The vector of kNum values with this index in an array: kNum is 1, or kNumLanes<T> where `source` is a multiple of 16
/// bytes. (From the address of an element instead the compiler does not see that it is aligned, and splits a store.)
template <int kNum, class T>
__device__ inline void load(const T* source, uint64_t index, float (&values)[kNum]) {
  if constexpr (kNum == 1) {
    values[0] = to_float(source[index]);
  } else {
    static_assert(kNum == kNumLanes<T>);
    unpack<T>(reinterpret_cast<const uint4*>(source)[index], values);
  }
}

/// Writes it, rounded once.
template <int kNum, class T>
__device__ inline void store(const float (&values)[kNum], T* target, uint64_t index) {
  if constexpr (kNum == 1) {
    target[index] = from_float<T>(values[0]);
  } else {
    static_assert(kNum == kNumLanes<T>);
    T lanes[kNum];
#pragma unroll
    for (int i = 0; i < kNum; ++i)
      lanes[i] = from_float<T>(values[i]);
    constexpr int kOfWord = kNum / 4;
    reinterpret_cast<uint4*>(target)[index] =
        make_uint4(pack(lanes), pack(lanes + kOfWord), pack(lanes + 2 * kOfWord), pack(lanes + 3 * kOfWord));
  }
}

/// body.operator()<kNum, T>() with whole vectors where rows of `columns` values of `dtype` at these addresses allow it,
/// else with single values.
template <class Body, class... Pointers>
void with_vectors(tsr_dtype dtype, uint64_t columns, const Body& body, Pointers... rows) {
  with_value_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    if (columns % kNumLanes<T> == 0 && (starts_at_multiple(rows, kVectorBytes) && ...))
      body.template operator()<kNumLanes<T>, T>();
    else
      body.template operator()<1, T>();
  });
}

}  // namespace tessera::cuda
