// Fully sharded data parallel: parameters that are used together are one flat group, cut in equal slices over the axis;
// each rank owns a slice, gathers the rest when it computes, and reduces gradients to slices.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/storage.hpp"
#include "tessera/strategy.hpp"

namespace tessera::fsdp {

/// What is cut over the axis.
enum class Sharding {
  full_shard,      ///< parameters, gradients, optimizer state (ZeRO-3)
  shard_grad_op,   ///< the same, with parameters gathered once a step (ZeRO-2)
  optimizer_only,  ///< optimizer state and reduced gradients; every rank has all parameters (ZeRO-1)
  no_shard,        ///< nothing: gradients are summed, as ddp does
};

/// Which units are one group: those that follow one another until a group has `min_bytes` of parameters (0: each unit
/// alone), or all.
struct Wrap {
  uint64_t min_elements = 0;
  uint64_t min_bytes = 0;
  bool whole_model = false;
};
/// unit | root | size:BYTES | min-params:N; throws INVALID_ARGUMENT.
Wrap parse_wrap(std::string_view text);

/// Elements of one rank's slice of a group: equal on all ranks, a multiple of kSliceAlignment, so the last slices may
/// hold pads only. This is the one place where padding is decided.
inline constexpr uint64_t kSliceAlignment = 32;
uint64_t slice_elements(uint64_t num_elements, int num_ranks);

class Fsdp final : public Strategy {
 public:
  static constexpr std::string_view kName = "fsdp";
  /// Throws INVALID_ARGUMENT for options that contradict one another.
  Fsdp(std::string_view axis, std::span<const tsr_option_value> options);

  void layout(const ProgramView& view, const tsr_layout_sink& sink) const override;
  void lower(const ProgramView& view, const Edit& edit) const override;
  bool depends_on_coordinate() const override { return sharding_ == Sharding::optimizer_only; }

 private:
  std::vector<storage::Group> groups(const ProgramView& view) const;

  Sharding sharding_;
  Wrap wrap_;
  storage::GatherOptions gather_;
};

}  // namespace tessera::fsdp
