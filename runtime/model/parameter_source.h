// Where the values of parameters come from.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tessera::host {

/// The one way to obtain parameter values: initialization, weight files and saved states are sources. A rank reads the
/// ranges it owns, so no rank holds the whole model.
class ParameterSource {
 public:
  virtual ~ParameterSource() = default;

  /// out[i] = element offset + i of `parameter` (Hugging Face's name without prefix, row-major). The value of an
  /// element does not depend on how the parameter is cut into reads. Throws NOT_FOUND for an unknown parameter,
  /// INVALID_ARGUMENT for a range beyond it where the source knows its extent, UNAVAILABLE or DATA_LOSS from files.
  /// [any-thread, may block]
  virtual void read(std::string_view parameter, uint64_t offset, std::span<float> out) const = 0;
};

}  // namespace tessera::host
