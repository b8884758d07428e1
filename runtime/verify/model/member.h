// One of the walked ranks that take part in a collective.
#pragma once

#include <string>

#include "program/collective_operands.h"
#include "verify/model/rank_walk.h"

namespace tessera::host {

/// A walked rank that takes part, and the action by which it does.
struct Member {
  RankWalk* walk;
  uint32_t index;

  int rank() const { return walk->rank(); }
  const Action& action() const { return walk->program().actions[index]; }
  const Group& group() const { return walk->program().groups[static_cast<size_t>(action().group)]; }
  CollectiveOperands operands() const { return CollectiveOperands(walk->program(), action()); }
  const Binding* destination() const { return action().find(kDestination); }
  /// What it gives to the others.
  const Binding& given() const {
    const Binding* source = action().find(kSource);
    return source ? *source : *destination();
  }
  tsr_dtype dtype() const { return walk->program().buffer(given().buffer).dtype; }
  void report(const std::string& what) const { walk->report(index, what); }
};

}  // namespace tessera::host
