// The stays of an item in device memory: what movement.cc makes copies from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "program/program.h"
#include "tessera/offload.h"

namespace tessera::host {

/// One access of an item, by the index of its action.
struct Access {
  size_t action = 0;
  uint64_t begin = 0, end = 0;  ///< elements
  uint32_t mode = 0;
};

/// A run of uses on one processor: with the item in device memory, or by actions that run on the host.
struct Stay {
  std::vector<Access> accesses;
  std::vector<size_t> squares;  ///< actions of later visits that come along: they sum squares of what is in memory here
  uint32_t first_visit = 0, last_visit = 0;
  bool on_host = false;
  const tsr_leave* leave = nullptr;  ///< how it ends; null: it is the last one

  size_t first_action() const { return accesses.front().action; }
  size_t last_action() const { return accesses.back().action; }
};

/// Whether a gradient's squares are all that the action reads: nothing but scalars besides.
bool only_sums_squares(const Action& action);

/// The answers about one item, by visit.
using LeavesOfItem = std::map<uint32_t, const tsr_leave*>;

/// An item's ranges and its time: atom k is the range [bounds[k], bounds[k + 1]).
struct Stays {
  std::vector<uint64_t> bounds;
  std::vector<Stay> all;

  /// Calls `visit(atom, access)` for every atom of every access, in order; the squares are left out.
  void for_each_atom(const Stay& stay, const std::function<void(size_t, const Access&)>& visit) const;
};

/// What all items have in common. `visit_of` is by action; `on_host` are indices of actions.
struct VisitedStep {
  const Program& program;
  std::span<const uint32_t> visit_of;
  const std::set<size_t>& on_host;
};

/// `accesses`: all of the item's, in list order. Pure.
Stays stays_of(const VisitedStep& step, const Buffer& item, std::span<const Access> accesses,
               const LeavesOfItem& leaves);

}  // namespace tessera::host
