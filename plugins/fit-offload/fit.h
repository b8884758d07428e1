// Offload of no more than must leave (the adaptive offload of DeepCompile, Tanaka et al. 2025, without its profile).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "movable_item.h"
#include "tessera/offload.hpp"

namespace tessera::fit {

/// Nothing leaves when all that is in use at once fits --device-memory, less a margin. Otherwise the moves that cost
/// the fewest bytes do with which it fits; RESOURCE_EXHAUSTED when no moves do.
class Fit {
 public:
  static constexpr std::string_view kName = "fit";
  explicit Fit(std::span<const tsr_option_value> options);
  void plan(const OffloadView& view, const OffloadSink& sink) const;

 private:
  uint32_t place_;
  double margin_;
  Distances distances_;
};

}  // namespace tessera::fit
