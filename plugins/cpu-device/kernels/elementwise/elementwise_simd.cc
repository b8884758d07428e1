// The loops of elementwise.h, compiled once per instruction set (simd.h). __restrict is what lets the compiler
// vectorise: operands do not overlap. int64 is added as uint64, since overflow of signed integers is undefined and
// accumulators may pass through here. 16-bit values are widened, worked on in float32, and rounded once.
#include "cpu-device/kernels/elementwise/elementwise.h"
#include "tessera/half.hpp"

namespace tessera::cpu::TESSERA_SIMD {
namespace {

struct Bf16 {
  static uint16_t from_float(float value) { return float_to_bf16(value); }
  static float to_float(uint16_t half) { return bf16_to_float(half); }
};

struct F16 {
  static uint16_t from_float(float value) { return float_to_f16(value); }
  static float to_float(uint16_t half) { return f16_to_float(half); }
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

// A template for each op; the functions below give them names that can be chosen by level.
template <class T>
void add(void* dst, const void* src, size_t num_elements) {
  auto* __restrict to = static_cast<T*>(dst);
  const auto* __restrict from = static_cast<const T*>(src);
  for (size_t i = 0; i < num_elements; ++i)
    to[i] += from[i];
}

template <class Half>
void add_halves(void* dst, const void* src, size_t num_elements) {
  auto* __restrict to = static_cast<uint16_t*>(dst);
  const auto* __restrict from = static_cast<const uint16_t*>(src);
  for (size_t i = 0; i < num_elements; ++i)
    to[i] = Half::from_float(Half::to_float(to[i]) + Half::to_float(from[i]));
}

template <class Half>
void scale_halves(void* dst, double factor, size_t num_elements) {
  auto* values = static_cast<uint16_t*>(dst);
  const auto f = static_cast<float>(factor);
  for (size_t i = 0; i < num_elements; ++i)
    values[i] = Half::from_float(Half::to_float(values[i]) * f);
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
void add_bf16(void* dst, const void* src, size_t num_elements) {
  add_halves<Bf16>(dst, src, num_elements);
}
void add_f16(void* dst, const void* src, size_t num_elements) {
  add_halves<F16>(dst, src, num_elements);
}
void scale_f32(void* dst, double factor, size_t num_elements) {
  scale<float>(dst, factor, num_elements);
}
void scale_f64(void* dst, double factor, size_t num_elements) {
  scale<double>(dst, factor, num_elements);
}
void scale_bf16(void* dst, double factor, size_t num_elements) {
  scale_halves<Bf16>(dst, factor, num_elements);
}
void scale_f16(void* dst, double factor, size_t num_elements) {
  scale_halves<F16>(dst, factor, num_elements);
}

}  // namespace tessera::cpu::TESSERA_SIMD
