#include "cpu-device/elementwise.h"

namespace tessera::cpu::TESSERA_SIMD {
namespace {

uint32_t bits_of(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

float float_of(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

constexpr uint32_t kSign = 0x80000000u, kInfinity = 0x7f800000u;

struct Bf16 {
  static uint16_t from_float(float value) {
    const uint32_t bits = bits_of(value);
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    const uint32_t quiet_nan = bits >> 16 | 0x40u;
    return static_cast<uint16_t>((bits & ~kSign) > kInfinity ? quiet_nan : rounded);
  }
  static float to_float(uint16_t half) { return float_of(uint32_t{half} << 16); }
};

struct F16 {
  // All three cases are computed and one is chosen, so that the loop vectorises.
  static uint16_t from_float(float value) {
    const uint32_t bits = bits_of(value) & ~kSign, sign = (bits_of(value) & kSign) >> 16;
    // Adding 0.5 leaves the 10 bits of a denormal, rounded, at the mantissa's end.
    const uint32_t denormal = bits_of(float_of(bits) + 0.5f) - bits_of(0.5f);
    const uint32_t normal = (bits - (112u << 23) + 0xfffu + (bits >> 13 & 1u)) >> 13;
    const uint32_t special = bits > kInfinity ? 0x7e00u : 0x7c00u;
    const uint32_t finite = bits < (113u << 23) ? denormal : normal;
    return static_cast<uint16_t>((bits >= (143u << 23) ? special : finite) | sign);
  }
  static float to_float(uint16_t half) {
    const uint32_t magnitude = uint32_t{half} & 0x7fffu;
    const uint32_t sign = (uint32_t{half} & 0x8000u) << 16;
    const uint32_t denormal = bits_of(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
    const uint32_t normal = (magnitude << 13) + (112u << 23);
    const uint32_t special = (magnitude << 13) + (224u << 23);
    const uint32_t finite = magnitude < 0x400u ? denormal : normal;
    return float_of((magnitude >= 0x7c00u ? special : finite) | sign);
  }
};

template <class Half>
void cast_to_half(void* dst, const void* src, size_t num_elements) {
  auto* __restrict to = static_cast<uint16_t*>(dst);
  const auto* __restrict from = static_cast<const float*>(src);
  for (size_t i = 0; i < num_elements; ++i)
    to[i] = Half::from_float(from[i]);
}

template <class Half>
void cast_from_half(void* dst, const void* src, size_t num_elements) {
  auto* __restrict to = static_cast<float*>(dst);
  const auto* __restrict from = static_cast<const uint16_t*>(src);
  for (size_t i = 0; i < num_elements; ++i)
    to[i] = Half::to_float(from[i]);
}

template <class To, class From>
void cast(void* dst, const void* src, size_t num_elements) {
  auto* __restrict to = static_cast<To*>(dst);
  const auto* __restrict from = static_cast<const From*>(src);
  for (size_t i = 0; i < num_elements; ++i)
    to[i] = static_cast<To>(from[i]);
}

template <class T>
void add(void* dst, const void* src, size_t num_elements) {
  auto* __restrict to = static_cast<T*>(dst);
  const auto* __restrict from = static_cast<const T*>(src);
  for (size_t i = 0; i < num_elements; ++i)
    to[i] += from[i];
}

template <class T>
void scale(void* dst, double factor, size_t num_elements) {
  auto* values = static_cast<T*>(dst);
  const T f = static_cast<T>(factor);
  for (size_t i = 0; i < num_elements; ++i)
    values[i] *= f;
}

}  // namespace

void cast_f32_bf16(void* dst, const void* src, size_t num_elements) {
  cast_to_half<Bf16>(dst, src, num_elements);
}
void cast_bf16_f32(void* dst, const void* src, size_t num_elements) {
  cast_from_half<Bf16>(dst, src, num_elements);
}
void cast_f32_f16(void* dst, const void* src, size_t num_elements) {
  cast_to_half<F16>(dst, src, num_elements);
}
void cast_f16_f32(void* dst, const void* src, size_t num_elements) {
  cast_from_half<F16>(dst, src, num_elements);
}
void cast_f32_f64(void* dst, const void* src, size_t num_elements) {
  cast<double, float>(dst, src, num_elements);
}
void cast_f64_f32(void* dst, const void* src, size_t num_elements) {
  cast<float, double>(dst, src, num_elements);
}
void add_f32(void* dst, const void* src, size_t num_elements) {
  add<float>(dst, src, num_elements);
}
void add_f64(void* dst, const void* src, size_t num_elements) {
  add<double>(dst, src, num_elements);
}
void add_i64(void* dst, const void* src, size_t num_elements) {
  add<uint64_t>(dst, src, num_elements);
}
void scale_f32(void* dst, double factor, size_t num_elements) {
  scale<float>(dst, factor, num_elements);
}
void scale_f64(void* dst, double factor, size_t num_elements) {
  scale<double>(dst, factor, num_elements);
}

}  // namespace tessera::cpu::TESSERA_SIMD
