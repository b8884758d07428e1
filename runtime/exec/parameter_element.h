// Elements of parameters, compared by how far they are from values that can train.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tessera::host {

/// One element of a parameter.
struct ParameterElement {
  int parameter = 0;   ///< index in the model
  uint64_t index = 0;  ///< in the whole parameter
  float value = 0;

  bool is_finite() const { return std::isfinite(value); }
};

/// Not finite before finite, then by position in the model, or by magnitude: independent of which rank holds what.
bool is_worse(const ParameterElement& a, const ParameterElement& b);
/// The index of the first value that is not finite, else of the largest.
size_t worst_of(std::span<const float> values);

}  // namespace tessera::host
