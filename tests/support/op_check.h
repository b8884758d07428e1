// The checks that every op of segments must pass; failures are reported to GoogleTest.
#pragma once

#include "support/op_runner.h"

namespace tessera::testing {

struct Tolerance {
  double relative;  // of an element and the root mean square of its tensor
};

/// The largest relative error of rounding to `dtype`: 2^-8 for bfloat16, 2^-11 for float16, and 0 for float32, whose
/// errors are in the tolerances.
double roundoff(tsr_dtype dtype);

/// `actual` is `expected` within the tolerance.
void expect_close(const std::vector<float>& actual, const std::vector<double>& expected, Tolerance tolerance,
                  const std::string& name);

/// Forward of `op` (its phase and dtype are ignored) on parameters, inputs and tokens, in float32, bfloat16 and
/// float16 (ops on logits: in float32): against the float64 reference on the same rounded operands with 1, 2 and 3
/// threads; the same bits whatever the operands' offsets and which optional slots are bound. `tolerance` is that of
/// float32; 16-bit results are rounded once more, so a roundoff is added to theirs.
void check_forward(tsr_op op, const Operands& operands, Tolerance tolerance = {2e-6});

/// Roundoffs in the tolerance of a backward that reads what the forward rounded to 16 bits: an output, the argument of
/// an activation. Measured are 2.6 in attention, and 2.0 in add_layer_norm, whose statistics are those of the sum
/// before it was rounded.
inline constexpr double kKeptRoundoffs = 4;

/// Backward: as check_forward, into gradients that are overwritten (they start as NaN) and added to; the two halves
/// give the bits of the whole; a gradient that is left out changes no other.
void check_backward(tsr_op op, const Operands& operands, Tolerance tolerance = {4e-6});

/// The float64 reference's gradients against numerical ones.
void check_reference(const tsr_op& op, const Operands& operands);

}  // namespace tessera::testing
