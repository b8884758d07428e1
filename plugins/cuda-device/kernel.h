// The interface between the device and its kernels: an op describes its slots and prepares kernels for them.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <span>

#include "tessera/operands.hpp"

namespace tessera::cuda {

class Context;

/// One op, prepared for the slots of one action of the program.
struct Kernel {
  virtual ~Kernel() = default;
  /// Enqueues the op; pointers[i] is the operand of slots[i] given to prepare. Allocates nothing, waits for nothing and
  /// reads no data, so it may be captured in a graph. Errors of the calls are thrown; errors in the data (a token
  /// out of range) go into the context's Fault. [issue-thread]
  virtual void launch(cudaStream_t stream, void* const* pointers) = 0;
};

/// The two functions of an op.
struct OpImpl {
  /// The op's slots, in launch order. Pure: opens no device. Throws UNSUPPORTED for what is not computed.
  op::SlotList (*describe)(const tsr_op& op);
  /// A kernel for `slots`, which the device has checked against describe: all of its slots that are not optional, once
  /// each, in any order, with its dtype and num_elements, and its mode except that ADD may have become WRITE (ZERO
  /// takes any number of destinations). `context` outlives the kernel. [control-thread]
  std::unique_ptr<Kernel> (*prepare)(const tsr_op& op, std::span<const tsr_slot_spec> slots, Context& context);
};

/// OpImpl::prepare of an op with one kernel for the forward and one for all phases of the backward.
template <class Forward, class Backward>
std::unique_ptr<Kernel> prepare_forward_or_backward(const tsr_op& op, std::span<const tsr_slot_spec> slots,
                                                    Context& context) {
  if (op.phase == TSR_PHASE_FORWARD) return std::make_unique<Forward>(op, slots, context);
  return std::make_unique<Backward>(op, slots, context);
}

}  // namespace tessera::cuda
