// Values in 16 bits, and as floats.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tessera/core.h"
#include "tessera/half.hpp"

namespace tessera::host {

/// Elements in 16 bits, as homes of frozen parameters are.
inline std::vector<std::byte> narrow(std::span<const float> values, tsr_dtype dtype) {
  std::vector<uint16_t> halves(values.size());
  std::ranges::transform(values, halves.begin(),
                         [&](float value) { return dtype == TSR_F16 ? float_to_f16(value) : float_to_bf16(value); });
  const auto bytes = std::as_bytes(std::span(halves));
  return {bytes.begin(), bytes.end()};
}

/// [halves.size()]
inline std::vector<float> widen(std::span<const uint16_t> halves, tsr_dtype dtype) {
  std::vector<float> values(halves.size());
  std::ranges::transform(halves, values.begin(),
                         [&](uint16_t half) { return dtype == TSR_F16 ? f16_to_float(half) : bf16_to_float(half); });
  return values;
}

}  // namespace tessera::host
