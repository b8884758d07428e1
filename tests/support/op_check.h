// The checks that every op of segments must pass; failures are reported to GoogleTest.
#pragma once

#include "support/op_runner.h"

namespace tessera::testing {

/// A device under test.
struct CheckedDevice {
  DeviceRunner& runner;
  /// Teams to run with; a GPU has no team.
  std::vector<int> thread_counts = {1};
  /// Another device that must have the same results within twice the tolerance, or nullptr.
  DeviceRunner* peer = nullptr;
};

struct Tolerance {
  double relative;  // of an element and the root mean square of its tensor
};

/// The largest relative error of rounding to `dtype`: 2^-8 for bfloat16, 2^-11 for float16, and 0 for float32, whose
/// errors are in the tolerances.
double roundoff(tsr_dtype dtype);

/// Roundoffs in the tolerance of a backward that reads what the forward rounded to 16 bits: an output, the argument of
/// an activation. Measured are 2.6 in attention, and 2.0 in add_layer_norm, whose statistics are those of the sum
/// before it was rounded.
inline constexpr double kKeptRoundoffs = 4;
/// A GPU multiplies matrices of 16 bits: logits, probabilities and gradients between two products are rounded there,
/// which float32 is spared on the CPU. So many roundoffs more.
inline constexpr double kProductRoundoffs = 8;
/// The CPU's loss in bfloat16 rounds the gradient of the logits before its two products. Measured are 1.6.
inline constexpr double kBf16LossRoundoffs = 4;
/// How many times the tolerances of float32 a GPU has: sums in other orders, and the CUDA library's functions.
inline constexpr double kCudaTolerances = 5;

/// Whether the device computes the op with a library that chooses an algorithm by the operands' alignment and by which
/// of them are bound: then bits are the same only where both are.
bool uses_library(const CheckedDevice& device, const tsr_op& op);

/// `tolerance` of float32, for what `op` writes to `slot` on this device.
Tolerance tolerance_of(const CheckedDevice& device, const tsr_op& op, const tsr_slot_spec& slot, Tolerance tolerance);

/// `actual` is `expected` within the tolerance.
void expect_close(const std::vector<float>& actual, const std::vector<double>& expected, Tolerance tolerance,
                  const std::string& name);
/// The outputs, saved tensors, contexts and gradients of `op` that are in both have the same bits.
void expect_same_bits(const tsr_op& op, const Operands& actual, const Operands& expected, const std::string& what);

/// How much is asked of large extents: kAll, or only the reference, the peer, a second run and a graph's.
enum class Checks { kAll, kFew };

/// Forward of `op` (its phase and dtype are ignored) on parameters, inputs and tokens, in float32, bfloat16 and
/// float16 (ops on logits: in float32): against the float64 reference on the same rounded operands, and the peer; the
/// same bits in every run, launched or from a graph, whatever the operands' offsets and which optional slots are bound.
/// `tolerance` is that of float32 on a CPU.
void check_forward(const CheckedDevice& device, tsr_op op, const Operands& operands, Tolerance tolerance = {2e-6},
                   Checks checks = Checks::kAll);

/// Backward: as check_forward, into gradients that are overwritten (they start as NaN) and added to; the two halves
/// give the bits of the whole; a gradient that is left out changes no other.
void check_backward(const CheckedDevice& device, tsr_op op, const Operands& operands, Tolerance tolerance = {4e-6},
                    Checks checks = Checks::kAll);

/// The float64 reference's gradients against numerical ones.
void check_reference(const tsr_op& op, const Operands& operands);

}  // namespace tessera::testing
