// How fsdp rewrites a program: homes become slices, gathers before use, reductions after the last gradient.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/storage.hpp"

namespace tessera::fsdp {

/// One pass over one program. Borrows all it is given.
class Sharder {
 public:
  Sharder(const ProgramView& view, const Edit& edit, std::span<const storage::Group> groups);

  /// Everything is a slice: values are gathered for compute, gradients reduced to slices.
  void shard_all(const storage::GatherOptions& options);
  /// Every rank has all values: gradients are reduced to slices, each rank updates its slice of the values, and all
  /// gather them in place. INIT gathers too, since a rank reads only its slice.
  void shard_optimizer();

 private:
  struct Shard {
    const storage::Group* group;
    uint64_t slice;                  // elements of one rank
    storage::Range value, gradient;  // this rank's; gradient.buffer is 0 where there is none
    uint64_t whole = 0;              // buffer of all values, where every rank has them
  };

  Shard make_shard(const storage::Group& group, bool whole_values) const;
  void replace_homes(const Shard& shard) const;
  std::vector<tsr_piece> pieces(const Shard& shard) const;
  void gather(const Shard& shard, const storage::Gathering& gathering) const;
  void gather_in_place(const Shard& shard) const;
  void reduce(const Shard& shard, const storage::GradientSum& sum) const;

  uint64_t add(const storage::Group& group, uint32_t kind, tsr_dtype dtype, uint64_t num_elements,
               const std::string& suffix = "") const;

  const ProgramView& view_;
  const Edit& edit_;
  std::span<const storage::Group> groups_;
  storage::GradientSums sums_;
  uint32_t gather_stream_, reduce_stream_;
  int32_t axis_group_;
};

/// no_shard: every rank starts from coordinate 0's values, and gradients are summed, one sum a group.
void replicate(const ProgramView& view, const Edit& edit, std::span<const storage::Group> groups);

}  // namespace tessera::fsdp
