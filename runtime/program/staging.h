// Copies for what works in the host's memory while the job's device has memory of its own: collectives of a
// communicator that does not take the device's streams, and strategies' own arithmetic.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "program/program.h"

namespace tessera {

/// Which actions work in the host's memory.
struct StagedKinds {
  bool collectives = false;
  bool calls = false;
};

/// Binds those actions to staging buffers in TSR_MEMORY_HOST instead of ranges of device memory. What they read is
/// copied there on copy_out right before the action, what they write is copied back on copy_in right behind it; what
/// they add to, both. In place, an all_gather is given its own slice only, and of a reduce_scatter its own slice is
/// taken back. What a message brings is copied where it is first touched: schedules post it long before, and on copy_in
/// all else would wait for it. In a group of one nothing passes between ranks: a collective becomes a copy in device
/// memory, and one in place stays as it is. After finish_program, which adds collectives; before workspaces are bound,
/// which stand where the operands do.
void stage_through_host(Program& program, const StagedKinds& kinds);

/// Whether the action copies a staging buffer back to the range that it stands for.
bool brings_back(const Program& program, const Action& action);

/// What the staging buffers of a program stand for, for those who ask what a collective is about.
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

}  // namespace tessera
