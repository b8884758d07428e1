// The seam between the device and its kernels: a family of ops describes its slots and prepares kernels for them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "tessera/operands.hpp"

namespace tessera::cpu {

/// One op, prepared for the slots of one action of the program.
struct Kernel {
  virtual ~Kernel() = default;
  /// Computes the op; pointers[i] is the operand of slots[i] given to prepare. Errors are thrown and fail the stream.
  /// [the stream's worker thread]
  virtual void run(void* const* pointers) = 0;
};

/// The two functions every kind of op has. Both are pure and throw UNSUPPORTED for what the family does not compute.
struct OpFamily {
  /// The op's slots, in launch order.
  op::SlotList (*describe)(const tsr_op& op);
  /// A kernel for `slots`, which the device has checked against describe: all of its slots that are not optional, once
  /// each, in any order, with its dtype and num_elements, and its mode except that ADD may have become WRITE (ZERO
  /// takes any number of destinations). The kernel uses a team of exactly `num_threads` threads; with 1 it starts none.
  std::unique_ptr<Kernel> (*prepare)(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads);
};

/// The family of TSR_OP_* `kind`, or nullptr if it is of another one.
const OpFamily* compute_ops(uint32_t kind);      // forward and backward of segments: kinds 1 to 31
const OpFamily* elementwise_ops(uint32_t kind);  // 32 to 47
const OpFamily* step_ops(uint32_t kind);         // sums of squares, clipping, optimizers: 48 and above

}  // namespace tessera::cpu
