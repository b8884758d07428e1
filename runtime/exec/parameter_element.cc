#include "exec/parameter_element.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace tessera::host {

bool is_worse(const ParameterElement& a, const ParameterElement& b) {
  if (a.is_finite() && b.is_finite()) return std::abs(a.value) > std::abs(b.value);
  if (a.is_finite() || b.is_finite()) return b.is_finite();
  return std::pair(a.parameter, a.index) < std::pair(b.parameter, b.index);
}

size_t worst_of(std::span<const float> values) {
  const auto magnitude = [](float value) { return std::bit_cast<uint32_t>(value) & 0x7fff'ffffu; };
  constexpr uint32_t kNotFinite = 0x7f80'0000;
  uint32_t most = 0;
  for (const float value : values)  // a loop that compilers vectorise: models are large
    most = std::max(most, magnitude(value));
  most = std::min(most, kNotFinite);
  return static_cast<size_t>(std::ranges::find_if(values, [&](float value) { return magnitude(value) >= most; }) -
                             values.begin());
}

}  // namespace tessera::host
