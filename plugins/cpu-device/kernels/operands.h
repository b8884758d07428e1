// What the ops of this folder have in common: how their kernels find operands, and which of two kernels an op has.
#pragma once

#include <memory>
#include <span>

#include "cpu-device/kernel.h"
#include "tessera/op_slots.hpp"

namespace tessera::cpu {

using op::extent;
using op::find_context;
using op::find_operand;
using op::has_input_half;
using op::has_weight_half;
using op::num_rows;
using op::Operand;
using op::SlotList;

/// OpImpl::prepare of an op with one kernel for all phases.
template <class OnlyKernel>
std::unique_ptr<Kernel> prepare_kernel(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads) {
  return std::make_unique<OnlyKernel>(op, slots, num_threads);
}

/// OpImpl::prepare of an op with one kernel for the forward and one for all phases of the backward.
template <class Forward, class Backward>
std::unique_ptr<Kernel> prepare_forward_or_backward(const tsr_op& op, std::span<const tsr_slot_spec> slots,
                                                    int num_threads) {
  if (op.phase == TSR_PHASE_FORWARD) return std::make_unique<Forward>(op, slots, num_threads);
  return std::make_unique<Backward>(op, slots, num_threads);
}

}  // namespace tessera::cpu
