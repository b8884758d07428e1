// One item's possible moves: where it may leave device memory, what that costs, and the bytes it then has in use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tessera/offload.hpp"

namespace tessera::fit {

/// Visits by which an item is fetched before its use, and for which it keeps its memory after it.
struct Distances {
  uint32_t ahead = 1, linger = 1;
};

/// Bytes of device memory in the visits first..last, inclusive.
struct Window {
  uint32_t first = 0, last = 0;
  uint64_t num_bytes = 0;

  bool operator==(const Window&) const = default;
};

/// The uses of an item in groups: uses so near one another that the item stays from one to the next. It may leave after
/// each group but a transient item's last one. Groups it does not leave between are one *stay*. Borrows the item.
class MovableItem {
 public:
  MovableItem(const tsr_item& item, const OffloadView& view, Distances distances);

  const tsr_item& item() const { return item_; }
  bool is_persistent() const { return is_persistent_; }
  uint32_t num_groups() const { return static_cast<uint32_t>(groups_.size()); }
  /// It may leave after the groups below this number. After its last one, a persistent item leaves if it leaves at all.
  uint32_t num_gaps() const { return num_groups() - (is_persistent_ ? 0 : 1); }

  bool leaves_after(uint32_t group) const { return leaves_[group]; }
  void set_leaves_after(uint32_t group, bool leaves) { leaves_[group] = leaves; }
  /// Whether it leaves after a group that is not its last one.
  bool leaves_within() const { return std::find(leaves_.begin(), leaves_.end() - 1, true) != leaves_.end() - 1; }
  /// The groups of the stay that has this one, and of the next stay if it leaves after it.
  std::pair<uint32_t, uint32_t> stay_around(uint32_t group) const;
  /// What the stays between these groups have in device memory. A stay begins with the first and ends with the last.
  std::vector<Window> windows(uint32_t first, uint32_t last) const;

  // What changes if it leaves after this group too, and does not now.
  /// Bytes copied in a step.
  uint64_t moved_bytes(uint32_t group) const;
  /// Bytes of device memory that become free.
  uint64_t relieved_bytes(uint32_t group) const;
  /// Where: visits in which less is in use.
  std::vector<Window> relief(uint32_t group) const;
  /// The visits beside whose compute its copies run.
  std::vector<Window> copies(uint32_t group) const;

  /// The visits after which it leaves, ascending.
  std::vector<uint32_t> leaving_visits() const;

 private:
  struct Group {
    uint32_t first_use = 0, last_use = 0;
    uint32_t first_visit = 0, last_visit = 0;
    uint64_t used_bytes = 0, written_bytes = 0;
    uint64_t largest_use = 0;
    bool is_run = false;  // of updates, each of its own range
  };

  // Of a stay from one group to another; `rests`: of an item that is in the other memory between steps.
  bool is_fetched(uint32_t first, bool rests) const { return rests || first > 0; }
  bool is_evicted(uint32_t last, bool rests) const { return rests || last + 1 < num_groups(); }
  bool passes_in_pieces(uint32_t first, uint32_t last, bool rests) const {
    return first == last && groups_[first].is_run && is_fetched(first, rests);
  }
  uint64_t used_bytes(uint32_t first, uint32_t last) const;
  uint64_t written_bytes(uint32_t first, uint32_t last) const;
  uint64_t copied_bytes(uint32_t first, uint32_t last, bool rests) const;
  uint64_t device_bytes(uint32_t first, uint32_t last, bool rests) const;
  Window around(uint32_t first_visit, uint32_t last_visit, bool is_fetched, bool lingers, uint64_t num_bytes) const;

  bool rests() const { return is_persistent_ && leaves_.back(); }
  std::span<const tsr_use> uses_of(const Group& group) const {
    return {item_.uses + group.first_use, size_t{1} + group.last_use - group.first_use};
  }

  const tsr_item& item_;
  const uint32_t num_visits_;
  const Distances distances_;
  const bool is_persistent_;
  std::vector<Group> groups_;
  std::vector<bool> leaves_;  // after each group
};

}  // namespace tessera::fit
