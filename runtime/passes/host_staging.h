// Copies for what works in the host's memory while the job's device has memory of its own: collectives of a
// communicator that does not take the device's streams, and strategies' own arithmetic.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "program/program.h"

namespace tessera::host {

/// Which actions work in the host's memory.
struct StagedKinds {
  bool collectives = false;
  bool calls = false;
};

/// Binds those actions to staging buffers in TSR_MEMORY_HOST instead of ranges of device memory. Operands that are read
/// are copied out on copy_out right before the action, those that are written are copied in on copy_in right after it,
/// and those that are added to both. In place, an all_gather is given its own slice only, and of a reduce_scatter only
/// the own slice is copied back. What a message brings is copied in front of its first use: schedules post receives
/// long before, and on copy_in everything else would wait. In a group of one nothing passes between ranks: a collective
/// becomes a copy in device memory, and one in place stays as it is. Runs after finalize_program, which adds
/// collectives, and before workspaces are bound, which are in the memory of the operands.
void stage_through_host(Program& program, const StagedKinds& kinds);

/// Whether the action copies a staging buffer back to the range that it stands for.
bool brings_back(const Program& program, const Action& action);

/// Maps the staging buffers of a program back to the ranges that they stand for.
class StagedRanges {
 public:
  explicit StagedRanges(const Program& program);
  /// The range in device memory that a range of a staging buffer stands for; of any other buffer, the range itself.
  Binding of(Binding range) const;

 private:
  struct Place {
    uint64_t buffer;
    uint64_t shift;  // to add to an offset, modulo 2^64
  };
  std::unordered_map<uint64_t, Place> places_;  // by staging buffer
};

}  // namespace tessera::host
