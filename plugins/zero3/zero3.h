// Data parallelism with owners: every tensor belongs to one rank of the axis, which alone keeps its optimizer state
// and, depending on the stage, its gradient and its value.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/storage.hpp"
#include "tessera/strategy.hpp"

namespace tessera::zero3 {

enum class Partition {
  balanced,    ///< the largest first, to the rank with the fewest elements (longest processing time first): tensors,
               ///< or whole units where no rank then owns more than the fullest does with tensors
  contiguous,  ///< tensors in model order, in ranges of about equal size
  round_robin,
};

/// The owner (a coordinate) of each parameter. Pure.
std::vector<int> assign_owners(std::span<const tsr_parameter> parameters, int num_ranks, Partition partition);

/// Stage 1: optimizer state at the owner, gradients summed on every rank. 2: gradients reduced to the owner. 3: values
/// at the owner, broadcast before use.
class Zero3 final : public Strategy {
 public:
  static constexpr std::string_view kName = "zero3";
  /// Throws INVALID_ARGUMENT for contradictory options.
  Zero3(std::string_view axis, std::span<const tsr_option_value> options);

  void layout(const ProgramView& view, const LayoutSink& sink) const override;
  void lower(const ProgramView& view, const Edit& edit) const override;
  bool depends_on_coordinate() const override { return true; }

 private:
  Partition partition_;
  int stage_;
  storage::UnshardOptions unshard_;
};

}  // namespace tessera::zero3
