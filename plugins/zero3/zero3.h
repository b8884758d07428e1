// Data parallel with owners: every tensor belongs to one rank of the axis, which alone keeps its optimizer state and,
// by stage, its gradient and its value.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/storage.hpp"
#include "tessera/strategy.hpp"

namespace tessera::zero3 {

enum class Partition {
  balanced,    ///< the largest tensor to the rank that has the fewest bytes (longest processing time first)
  contiguous,  ///< tensors in model order, cut into runs of about equal bytes
  round_robin,
};

/// The owner (a coordinate) of each parameter. Pure.
std::vector<int> assign_owners(std::span<const tsr_parameter> parameters, int num_ranks, Partition partition);

/// Stage 1: optimizer state at the owner, gradients summed on every rank. 2: gradients reduced to the owner. 3: values
/// at the owner, broadcast before use.
class Zero3 final : public Strategy {
 public:
  static constexpr std::string_view kName = "zero3";
  /// Throws INVALID_ARGUMENT for options that contradict one another.
  Zero3(std::string_view axis, std::span<const tsr_option_value> options);

  void layout(const ProgramView& view, const tsr_layout_sink& sink) const override;
  void lower(const ProgramView& view, const Edit& edit) const override;
  bool depends_on_coordinate() const override { return true; }

 private:
  Partition partition_;
  int stage_;
  storage::GatherOptions gather_;
};

}  // namespace tessera::zero3
