// Tensor parallelism: heads, feed-forward columns and vocabulary are split over the axis; partial results are summed
// over it (Megatron-LM, Shoeybi et al. 2019).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tessera/strategy.hpp"

namespace tessera::tensor {

/// Depends on the names of dims only, not on segments: the model declares the dims of each parameter and the dims that
/// each segment contracts.
class Tensor final : public Strategy {
 public:
  static constexpr std::string_view kName = "tensor";
  Tensor(std::string_view axis, std::span<const tsr_option_value> options);

  /// Splits every dim named heads, ffn or vocab; the vocabulary is padded. Throws INVALID_ARGUMENT, with the possible
  /// sizes, when heads or ffn do not divide.
  void layout(const ProgramView& view, const LayoutSink& sink) const override;
  void lower(const ProgramView& view, const Edit& edit) const override;

 private:
  bool splits_rows_;  ///< sequence parallelism (Korthikanti et al. 2022)
};

}  // namespace tessera::tensor
