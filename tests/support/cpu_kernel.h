// Kernels of cpu-device, run without a stream.
#pragma once

#include <vector>

#include "cpu-device/device.h"
#include "cpu-device/kernel.h"
#include "cpu-device/slots.h"
#include "tessera/error.hpp"

namespace tessera::testing {

/// Prepares `op` for its own slots, as describe lists them, and runs it once; `pointers` in that order.
inline void run_op(const tsr_op& op, const std::vector<void*>& pointers, int num_threads = 1) {
  for (const auto find : {cpu::compute_ops, cpu::elementwise_ops, cpu::step_ops})
    if (const cpu::OpFamily* family = find(op.kind)) {
      const auto slots = family->describe(op);
      if (slots.size() != pointers.size()) throw Error(TSR_E_INVALID_ARGUMENT, "run_op: one pointer a slot");
      family->prepare(op, slots, num_threads)->run(pointers.data());
      return;
    }
  throw Error(TSR_E_UNSUPPORTED, "run_op: no family has this kind");
}

}  // namespace tessera::testing
