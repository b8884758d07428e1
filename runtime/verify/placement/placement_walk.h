// Walks through a program and tracks how every element is placed over one axis. Before the first action, tokens are
// varying on a batch axis, run words partial, homes placed as in the layout, and padding zero; each action then applies
// its rule (placement_rules.h).
#pragma once

#include <functional>
#include <vector>

#include "verify/placement/placement.h"

namespace tessera::host {

class DiagnosticList;

/// A range of a home that lives across steps, with its placement when the step begins.
struct EnteredHome {
  const Home* home;
  uint32_t role;
  Binding range;
  Placement placement;
};

/// A range of a strategy's own persistent buffer.
struct OwnRange {
  uint64_t buffer = 0, begin = 0, end = 0;

  bool operator==(const OwnRange&) const = default;
};

class PlacementWalk {
 public:
  /// Borrows its arguments. `local`: ranges in which an earlier step has left what only this rank has.
  PlacementWalk(const Program& program, int axis, DiagnosticList& diagnostics, const std::vector<OwnRange>& local = {});

  /// Applies all actions, and calls `after` after each. A broken rule is a diagnostic.
  void run(const std::function<void(size_t action)>& after = {});

  const std::vector<EnteredHome>& homes() const { return homes_; }
  /// The placements after the last applied action.
  PlacementParts read(const Binding& range) { return placements_.read(range); }
  /// Where they are of one rank in the strategies' own persistent buffers.
  std::vector<OwnRange> local_ranges();

 private:
  void enter_buffers();
  void enter_run_words();
  void enter_homes();
  PlacementKind entry_placement(const Buffer& buffer) const;

  const Program& program_;
  const int axis_;
  DiagnosticList& diagnostics_;
  PlacementMap placements_;
  std::vector<EnteredHome> homes_;
};

}  // namespace tessera::host
