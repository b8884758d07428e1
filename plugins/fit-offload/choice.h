// Which items leave, and after which uses: the cheapest moves that lower the peaks.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "movable_item.h"
#include "peaks.h"
#include "tessera/offload.hpp"

namespace tessera::fit {

class Choice {
 public:
  /// Borrows the view. `limit_bytes`: that may be in use in any visit.
  Choice(const OffloadView& view, Distances distances, uint64_t limit_bytes);

  /// Chooses moves until no visit has more in use than the limit, or nothing would lower the highest.
  void run();

  /// Bytes by which the highest visit is above the limit; 0 or less when all are below it.
  int64_t excess() const { return peaks_.most(); }
  uint32_t highest_visit() const { return peaks_.where(); }
  const std::vector<MovableItem>& items() const { return items_; }

 private:
  /// A gap in which an item may leave.
  struct Candidate {
    double cost = 0;  // bytes moved for each byte that is relieved
    double operations = 0;
    uint64_t num_bytes = 0;
    uint32_t item = 0, gap = 0, version = 0;

    /// Whether the other one is to be taken before this one.
    bool operator<(const Candidate& other) const;
  };
  struct Gap {
    uint32_t item = 0, gap = 0;
  };
  /// The last offer of a gap.
  struct Offered {
    uint32_t version = 0;
    double cost = 0;
    std::vector<Window> relief;
  };

  void offer(uint32_t item, uint32_t gap);
  bool is_current(const Candidate& candidate) const {
    return offered_[candidate.item][candidate.gap].version == candidate.version;
  }
  const Candidate* cheapest_at(uint32_t visit);
  void take(uint32_t item, uint32_t gap);
  void leave(uint32_t item, uint32_t gap);
  void set_leaves(Gap gap, bool leaves);
  void add(const MovableItem& movable, uint32_t first, uint32_t last, int64_t sign);
  void drop_what_is_not_needed();
  double operations_beside(const std::vector<Window>& windows) const;

  std::vector<MovableItem> items_;
  Peaks peaks_;                                // over the limit
  std::vector<double> operations_before_;      // of each visit
  std::vector<std::vector<Offered>> offered_;  // by item, by gap
  /// By node of a tree over the visits: offers that relieve all visits below it.
  std::vector<std::priority_queue<Candidate>> offers_;
  std::vector<Gap> taken_;
};

}  // namespace tessera::fit
