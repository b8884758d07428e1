// How fsdp rewrites a program: homes become slices, gathers before use, reductions after the last gradient.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/storage.hpp"

namespace tessera::fsdp {

/// Elements of one rank's slice of a group: equal on all ranks, a multiple of kSliceAlignment, so the last slices may
/// hold padding only. Padding is decided here alone.
inline constexpr uint64_t kSliceAlignment = 32;
uint64_t slice_elements(uint64_t num_elements, int num_ranks);

/// One pass over one program. Borrows all it is given.
class Sharder : storage::ShardingPass {
 public:
  Sharder(const ProgramView& view, const Edit& edit, std::span<const storage::ParamGroup> groups);

  /// Homes become slices: values are gathered for compute, gradients reduced to slices.
  void shard_all(const storage::UnshardOptions& options);
  /// Values stay whole: gradients are reduced to slices, each rank updates its slice of the values, and an all-gather
  /// in place makes them whole again. INIT gathers too, since a rank reads only its slice.
  void shard_optimizer();

 private:
  struct Shard {
    const storage::ParamGroup* group;
    uint64_t slice;                        // elements of one rank
    storage::BufferRange value, gradient;  // of this rank; gradient.buffer is 0 if frozen
    uint64_t whole = 0;                    // buffer of all values, if they stay whole
  };

  Shard make_shard(const storage::ParamGroup& group, bool whole_values) const;
  void replace_homes(const Shard& shard) const;
  std::vector<tsr_piece> pieces(const Shard& shard) const;
  void gather(const Shard& shard, const storage::Unshard& unshard) const;
  void gather_in_place(const Shard& shard) const;
  void reduce(const Shard& shard, const storage::GradientSum& sum) const;

  uint64_t add(const storage::ParamGroup& group, uint32_t kind, tsr_dtype dtype, uint64_t num_elements,
               const std::string& suffix = "") const;

  std::span<const storage::ParamGroup> groups_;
};

/// no_shard: every rank starts from coordinate 0's values, and gradients are summed, one sum per group.
void replicate(const ProgramView& view, const Edit& edit, std::span<const storage::ParamGroup> groups);

}  // namespace tessera::fsdp
