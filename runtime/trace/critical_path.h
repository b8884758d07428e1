// The chain of actions that decides how long a step takes.
#pragma once

#include <span>
#include <vector>

#include "trace/trace.h"

namespace tessera::host {

/// A part of the path: an action from when all it waits for was there, on this rank and the others, to when what
/// follows on the path began.
struct PathPart {
  const TracedAction* action = nullptr;
  int64_t begin_ns = 0, end_ns = 0;
  int64_t delay_ns = 0;  ///< before it, in which nothing that it waits for ran: it was issued or started late
};

/// The path of one step of all ranks, from its beginning to its end; its parts and delays fill the time between the
/// first begin of an action and the last end. Borrows `actions`. Pure.
std::vector<PathPart> critical_path(std::span<const TracedAction* const> actions);

}  // namespace tessera::host
