// Kernels of cpu-device, run without a stream.
#pragma once

#include <vector>

#include "cpu-device/kernels/ops.h"
#include "tessera/error.hpp"

namespace tessera::testing {

/// Prepares `op` for its own slots, as describe lists them, and runs it once; `pointers` in that order, with nullptr
/// for an optional slot that is not bound.
inline void run_op(const tsr_op& op, const std::vector<void*>& pointers, int num_threads = 1) {
  const auto described = cpu::describe_op(op);
  if (described.size() != pointers.size()) throw Error(TSR_E_INVALID_ARGUMENT, "run_op: one pointer a slot");
  std::vector<tsr_slot_spec> slots;
  std::vector<void*> bound;
  for (size_t i = 0; i < described.size(); ++i) {
    if ((described[i].flags & TSR_SLOT_OPTIONAL) && !pointers[i]) continue;
    slots.push_back(described[i]);
    bound.push_back(pointers[i]);
  }
  cpu::prepare_op(op, slots, num_threads)->run(bound.data());
}

}  // namespace tessera::testing
