// Decodes elements of weight files. The table is that of the safetensors format: the sizes of all dtypes are needed to
// check a header, the values only of floating types. Conversion works on bits and does not rely on the compiler's half
// types, so all machines read the same values.

#include "weights/element_conversion.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

static_assert(std::endian::native == std::endian::little, "weight files are little-endian and are read as they are");

constexpr std::array<std::pair<std::string_view, uint64_t>, 15> kElementBytes{{{"BOOL", 1},
                                                                               {"U8", 1},
                                                                               {"I8", 1},
                                                                               {"F8_E5M2", 1},
                                                                               {"F8_E4M3", 1},
                                                                               {"I16", 2},
                                                                               {"U16", 2},
                                                                               {"F16", 2},
                                                                               {"BF16", 2},
                                                                               {"I32", 4},
                                                                               {"U32", 4},
                                                                               {"F32", 4},
                                                                               {"F64", 8},
                                                                               {"I64", 8},
                                                                               {"U64", 8}}};

/// 1 bit of sign, 5 of exponent (bias 15), 10 of mantissa; float has 8 (bias 127) and 23. Every half is a float, so
/// nothing is rounded; infinity and NaN have all ones as their exponent in both.
float from_half(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0) {  // zero and subnormal: mantissa * 2^-24
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  const uint32_t wide_exponent = exponent == 0x1f ? 0xffu : exponent + 127 - 15;
  return std::bit_cast<float>(sign | wide_exponent << 23 | mantissa << 13);
}

/// The upper half of a float.
float from_bfloat(uint16_t bfloat) {
  return std::bit_cast<float>(static_cast<uint32_t>(bfloat) << 16);
}

float from_double(double value) {
  return static_cast<float>(value);
}

template <class T>
void convert_each(std::span<const std::byte> elements, std::span<float> out, float (*convert)(T)) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    T element;
    // Elements may begin at any byte: a header has any length.
    std::memcpy(&element, elements.data() + i * sizeof element, sizeof element);
    out[i] = convert(element);
  }
}

}  // namespace

uint64_t element_bytes(std::string_view dtype) {
  const auto* found =
      std::find_if(kElementBytes.begin(), kElementBytes.end(), [&](const auto& entry) { return entry.first == dtype; });
  return found == kElementBytes.end() ? 0 : found->second;
}

bool converts_to_float(std::string_view dtype) {
  return dtype == "F32" || dtype == "F16" || dtype == "BF16" || dtype == "F64";
}

void to_float(std::string_view dtype, std::span<const std::byte> elements, std::span<float> out) {
  assert(elements.size() == out.size() * element_bytes(dtype));
  if (dtype == "F32") {
    if (!out.empty()) std::memcpy(out.data(), elements.data(), elements.size());
  } else if (dtype == "F16") {
    convert_each<uint16_t>(elements, out, from_half);
  } else if (dtype == "BF16") {
    convert_each<uint16_t>(elements, out, from_bfloat);
  } else if (dtype == "F64") {
    convert_each<double>(elements, out, from_double);
  } else {
    throw Error(TSR_E_UNSUPPORTED,
                concat("elements of type ", dtype, " cannot be parameters; F32, F16, BF16 and F64 can"));
  }
}

}  // namespace tessera::host
