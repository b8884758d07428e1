// Filling what a rank holds from a checkpoint of any layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/held_state.h"

namespace tessera::host {

/// Where floats go that were read.
struct StateSink {
  /// A place of float32 that the host may fill itself; empty: it is written to.
  std::function<std::span<float>(const StatePlace& place)> memory;
  /// Writes values to a place, rounded to its type. Returns when done.
  std::function<void(const StatePlace& place, std::span<const float> values)> write;
};

enum class LoadWhat { everything, parameters };

/// Reads the elements of `tensors`, in pieces of 1 MiB, and no others; of `parameters` only values, not moments, and
/// those of the first replica. Where the checkpoint has another number of replicas all take the first one's. What
/// strategies keep for themselves is left out.
/// Throws what Checkpoint::read throws, and FAILED_PRECONDITION for moments that the checkpoint lacks, saying which
/// settings make them. `progress`, if any, counts tensors.
void load_tensors(const Checkpoint& checkpoint, std::span<const HeldTensor> tensors, LoadWhat what,
                  const StateSink& sink, Progress* progress = nullptr);

/// All places that load_tensors() fills.
std::vector<StatePlace> loaded_places(std::span<const HeldTensor> tensors, LoadWhat what);

/// How many replicas of the tensor it has, which is that of the first one.
int num_replicas(const Checkpoint& checkpoint, const std::string& tensor);

/// Why this rank cannot go on with what its strategies kept for themselves, as a sentence: mesh or strategies are
/// others, or so are its buffers. Empty: it can, or nothing was kept and nothing is.
std::string obstacle_to_own_state(const Checkpoint& checkpoint, std::span<const HeldTensor> tensors, int rank,
                                  const RunDescription& run);

/// State of a strategy without which no run goes on (TSR_ON_CHANGE_REFUSE), as the run that saved it or this one
/// describes it: the name of one. Empty: there is none.
std::string required_own_state(const Checkpoint& checkpoint, std::span<const HeldTensor> tensors);

/// Those of them that a rank goes on with all the same: described to be kept, and in the checkpoint under the number of
/// this rank with the same type, length and version.
std::vector<HeldTensor> kept_own_state(const Checkpoint& checkpoint, std::span<const HeldTensor> tensors);

using WriteBytes = std::function<void(const StatePlace& place, std::span<const std::byte> elements)>;
/// Reads it, if obstacle_to_own_state() is empty. Throws what Checkpoint::read_bytes throws.
void load_own_state(const Checkpoint& checkpoint, std::span<const HeldTensor> tensors, const WriteBytes& write);

}  // namespace tessera::host
