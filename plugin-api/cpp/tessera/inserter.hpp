// SPDX-License-Identifier: Apache-2.0
// Inserts collectives and casts of ranges of buffers into a program.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/strategy.hpp"

namespace tessera::storage {

/// A range of a buffer, in elements.
struct BufferRange {
  uint64_t buffer = 0;
  uint64_t offset = 0;
  uint64_t num_elements = 0;

  tsr_binding source() const { return {buffer, offset, num_elements, kSource, TSR_MODE_READ}; }
  tsr_binding destination() const { return {buffer, offset, num_elements, kDestination, TSR_MODE_WRITE}; }
  tsr_binding in_place() const { return {buffer, offset, num_elements, kDestination, TSR_MODE_ADD}; }
  tsr_home_role role(uint32_t number) const { return {number, 1, buffer, offset, num_elements}; }
};

/// Inserts actions one after another at one position in the list; they belong to `micro_batch`, or to the step (-1).
class Inserter {
 public:
  Inserter(const Edit& edit, uint64_t anchor, uint32_t where, int micro_batch = -1)
      : edit_(edit), anchor_(anchor), where_(where), micro_batch_(micro_batch) {}

  void collective(uint32_t kind, uint32_t stream, int32_t group, std::span<const tsr_binding> bindings,
                  int32_t root = -1) const {
    tsr_action action = make_action(kind, stream);
    action.micro_batch = micro_batch_;
    action.group = group;
    action.peer = root;
    const bool reduces =
        kind == TSR_ACTION_ALL_REDUCE || kind == TSR_ACTION_REDUCE_SCATTER || kind == TSR_ACTION_REDUCE;
    action.reduce = reduces ? TSR_REDUCE_SUM : 0;
    edit_.insert(anchor_, where_, action, bindings);
  }
  void cast(const BufferRange& from, const BufferRange& to) const {
    const tsr_binding bindings[] = {from.source(), to.destination()};
    tsr_action action = make_action(TSR_ACTION_CAST, TSR_STREAM_COMPUTE);
    action.micro_batch = micro_batch_;
    edit_.insert(anchor_, where_, action, bindings);
  }

 private:
  const Edit& edit_;
  uint64_t anchor_;
  uint32_t where_;
  int micro_batch_;
};

}  // namespace tessera::storage
