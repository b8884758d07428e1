// Fully sharded data parallelism: parameters that are used together form a group of flat parameters, split in equal
// slices over the axis; each rank owns a slice, gathers the rest when it computes, and reduces gradients to slices.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/storage.hpp"
#include "tessera/strategy.hpp"

namespace tessera::fsdp {

/// What is split over the axis.
enum class Sharding {
  full_shard,      ///< parameters, gradients, optimizer state (ZeRO-3)
  shard_grad_op,   ///< the same, with parameters gathered once a step (ZeRO-2)
  optimizer_only,  ///< optimizer state and reduced gradients; every rank has all parameters (ZeRO-1)
  no_shard,        ///< nothing: gradients are summed, as ddp does
};

/// Which units form a group: consecutive units until they have `min_elements` and `min_bytes` (0: each unit alone), or
/// all.
struct Wrap {
  uint64_t min_elements = 0;
  uint64_t min_bytes = 0;
  bool whole_model = false;
};
/// unit | root | size:BYTES | min-params:N; throws INVALID_ARGUMENT.
Wrap parse_wrap(std::string_view text);

/// Splits parameters, gradients and optimizer state over the ranks of the axis, as `sharding` says.
class Fsdp final : public Strategy {
 public:
  static constexpr std::string_view kName = "fsdp";
  /// Throws INVALID_ARGUMENT for contradictory options.
  Fsdp(std::string_view axis, std::span<const tsr_option_value> options);

  void layout(const ProgramView& view, const LayoutSink& sink) const override;
  void lower(const ProgramView& view, const Edit& edit) const override;
  bool depends_on_coordinate() const override { return sharding_ == Sharding::optimizer_only; }

 private:
  std::vector<storage::ParamGroup> groups(const ProgramView& view) const;

  Sharding sharding_;
  Wrap wrap_;
  storage::UnshardOptions unshard_;
};

}  // namespace tessera::fsdp
