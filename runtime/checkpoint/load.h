// Filling what a rank holds from a checkpoint of any layout.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/progress.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/held_state.h"

namespace tessera::host {

/// Writes floats to a place, rounded to its type. Returns when done.
using WriteState = std::function<void(const StatePlace& place, std::span<const float> values)>;

enum class LoadWhat { everything, parameters };

/// Reads the elements of `tensors`, in pieces of 4 MiB, and no others; of `parameters` only values, not moments.
/// Throws what Checkpoint::read throws, and FAILED_PRECONDITION for moments that the checkpoint lacks, saying which
/// settings make them. `progress`, if any, counts tensors.
void load_tensors(const Checkpoint& checkpoint, std::span<const HeldTensor> tensors, LoadWhat what,
                  const WriteState& write, Progress* progress = nullptr);

}  // namespace tessera::host
