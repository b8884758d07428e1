// Copies between device and host memory for actions that work on the host: collectives of a communicator that does not
// take the device's streams, and calls of strategies.
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

/// Binds these actions to staging buffers in TSR_MEMORY_HOST instead of ranges of device memory:
///  - operands that are read are copied out, on copy_out right before the action;
///  - operands that are written are copied in, on copy_in right after it; received ones before their first use, since
///    schedules post receives early and everything else on copy_in would wait;
///  - operands that are added to are copied both ways; in place, an all_gather copies out only its own slice, and a
///    reduce_scatter copies in only its own slice.
/// A collective in a group of one becomes a copy in device memory; in place it stays as it is. Runs after
/// finalize_program, which adds collectives, and before bind_workspaces, which follows the memory of the operands.
void stage_through_host(Program& program, const StagedKinds& kinds);

/// A copy of one range to another on that stream, with the program's next id. Slots and modes of the ranges are set
/// here.
Action copy_action(Program& program, uint32_t stream, Binding from, Binding to);

/// Whether the action copies a staging buffer back to its range in device memory.
bool brings_back(const Program& program, const Action& action);

/// Maps the staging buffers of a program to their ranges in device memory.
class StagedRanges {
 public:
  explicit StagedRanges(const Program& program);
  /// The range in device memory of a range of a staging buffer; a range of any other buffer is returned as it is.
  Binding of(Binding range) const;

 private:
  struct Place {
    uint64_t buffer;
    uint64_t shift;  // to add to an offset, modulo 2^64
  };
  std::unordered_map<uint64_t, Place> places_;  // by staging buffer
};

}  // namespace tessera::host
