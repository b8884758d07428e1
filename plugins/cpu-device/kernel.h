// The interface between the device and its kernels: an op describes its slots and prepares kernels for them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "tessera/operands.hpp"

namespace tessera::cpu {

/// The plugin's name, as its errors carry it.
inline constexpr std::string_view kName = "cpu-device";

/// One op, prepared for the slots of one action of the program.
struct Kernel {
  virtual ~Kernel() = default;
  /// Computes the op; pointers[i] is the operand of slots[i] given to prepare. Errors are thrown, and fail the stream.
  /// [the stream's worker thread]
  virtual void run(void* const* pointers) = 0;
};

/// The two functions of an op. Both are pure and throw UNSUPPORTED for phases and dtypes that are not computed.
struct OpImpl {
  /// The op's slots, in launch order.
  op::SlotList (*describe)(const tsr_op& op);
  /// A kernel for `slots`, which the device has checked against describe: all of its slots that are not optional, once
  /// each, in any order, with its dtype and num_elements, and its mode except that ADD may have become WRITE (ZERO
  /// takes any number of destinations). The kernel uses a team of exactly `num_threads` threads; with 1 it starts none.
  std::unique_ptr<Kernel> (*prepare)(const tsr_op& op, std::span<const tsr_slot_spec> slots, int num_threads);
};

}  // namespace tessera::cpu
