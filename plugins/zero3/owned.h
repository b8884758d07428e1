// How zero3 rewrites a program: homes stay with their owners, values are broadcast, gradients reduced.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/storage.hpp"

namespace tessera::zero3 {

/// Neighbouring homes of one group that have one owner: what one broadcast or reduction moves.
struct Run {
  int owner = 0;
  uint64_t begin = 0, end = 0;  ///< in the group, up to where the next run begins
  uint64_t own_begin = 0;       ///< in the owner's buffer, where its runs follow one another
  std::vector<const tsr_home*> homes;

  uint64_t num_elements() const { return end - begin; }
};
/// The runs of a group. `owners` are by parameter.
std::vector<Run> runs_of(const storage::Group& group, std::span<const int> owners);

/// One pass over one program. Borrows all it is given.
class OwnerPass {
 public:
  OwnerPass(const ProgramView& view, const Edit& edit, std::span<const int> owners, int stage,
            const storage::GatherOptions& gather);
  void run();

 private:
  /// A group on this rank. Buffers are 0 where there is none.
  struct Owned {
    const storage::Group* group;
    std::vector<Run> runs;
    uint64_t num_elements = 0;  // of this rank's runs
    uint64_t value = 0, gradient = 0, m = 0, v = 0;
  };

  bool is_mine(const Run& run) const { return run.owner == view_.axis().coordinate; }
  Owned own(const storage::Group& group) const;
  void replace_homes(const Owned& owned) const;
  void gather(const Owned& owned, const storage::Gathering& gathering) const;
  void sum_everywhere(const Owned& owned, const storage::GradientSum& sum) const;
  void reduce(const Owned& owned, const storage::GradientSum& sum) const;
  void bind_add(const storage::GradientSum& sum, const Run& run, const storage::Range& source) const;
  void broadcast_in_place(const Owned& owned) const;

  const ProgramView& view_;
  const Edit& edit_;
  std::span<const int> owners_;
  const int stage_;
  const storage::GatherOptions options_;
  std::vector<storage::Group> groups_;
  storage::GradientSums sums_;
  uint32_t gather_stream_, reduce_stream_;
  int32_t axis_group_;
};

}  // namespace tessera::zero3
