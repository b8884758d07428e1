// The chain of actions that decides how long a step takes.
#pragma once

#include <span>
#include <vector>

#include "trace/trace.h"

namespace tessera::host {

/// A part of the path: an action, from the end of everything it waits for, on this rank and others, to the begin of the
/// next part.
struct PathPart {
  const TracedAction* action = nullptr;
  int64_t begin_ns = 0, end_ns = 0;
  int64_t delay_ns = 0;  ///< before it, when nothing that it waits for was running: it was issued or started late
};

/// The path of one step of all ranks, from its beginning to its end; its parts and delays fill the time between the
/// first begin of an action and the last end. Borrows `actions`. Pure.
std::vector<PathPart> critical_path(std::span<const TracedAction* const> actions);

}  // namespace tessera::host
