// All ops of this device.
#pragma once

#include "cpu-device/kernel.h"

namespace tessera::cpu {

/// The op's slots, in launch order. Pure. Throws UNSUPPORTED for an op, phase or dtype that is not computed here.
op::SlotList describe_op(const tsr_op& op);

/// A kernel for `slots`, which were checked against describe_op (OpImpl::prepare).
std::unique_ptr<Kernel> prepare_op(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads);

}  // namespace tessera::cpu
