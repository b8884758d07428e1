// How zero3 rewrites a program: homes stay with their owners, values are broadcast, gradients reduced.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "tessera/storage.hpp"

namespace tessera::zero3 {

/// Neighboring homes of one group with the same owner: moved by one broadcast or reduction.
struct OwnedRange {
  int owner = 0;
  uint64_t begin = 0, end = 0;  ///< in the group, up to the next range
  uint64_t own_begin = 0;       ///< in the owner's buffer, which holds its ranges one after another
  std::vector<const tsr_home*> homes;

  uint64_t num_elements() const { return end - begin; }
};
/// The ranges of a group. `owners` are by parameter.
std::vector<OwnedRange> owned_ranges(const storage::ParamGroup& group, std::span<const int> owners);

/// One pass over one program. Borrows all it is given.
class OwnerPass : storage::ShardingPass {
 public:
  OwnerPass(const ProgramView& view, const Edit& edit, std::span<const int> owners, int stage,
            const storage::UnshardOptions& options);
  void run();

 private:
  /// A group on this rank. Buffers are 0 if there is none.
  struct OwnedGroup {
    const storage::ParamGroup* group;
    std::vector<OwnedRange> ranges;
    uint64_t num_elements = 0;  // of this rank's ranges
    uint64_t value = 0, gradient = 0;
    std::map<uint32_t, uint64_t> states = {};  // by role
  };

  bool is_mine(const OwnedRange& range) const { return range.owner == view_.axis().coordinate; }
  OwnedGroup own(const storage::ParamGroup& group) const;
  void replace_homes(const OwnedGroup& owned) const;
  void gather(const OwnedGroup& owned, const storage::Unshard& unshard) const;
  void sum_everywhere(const OwnedGroup& owned, const storage::GradientSum& sum) const;
  void reduce(const OwnedGroup& owned, const storage::GradientSum& sum) const;
  void bind_add(const storage::GradientSum& sum, const OwnedRange& range, const storage::BufferRange& source) const;
  void broadcast_in_place(const OwnedGroup& owned) const;

  std::span<const int> owners_;
  const int stage_;
  const storage::UnshardOptions options_;
  std::vector<storage::ParamGroup> groups_;
};

}  // namespace tessera::zero3
