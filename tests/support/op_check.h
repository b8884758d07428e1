// The checks that every op of segments must pass; failures are reported to GoogleTest.
#pragma once

#include "support/op_runner.h"

namespace tessera::testing {

struct Tolerance {
  double relative;  // of an element and the root mean square of its tensor
};

/// `actual` is `expected` within the tolerance.
void expect_close(const std::vector<float>& actual, const std::vector<double>& expected, Tolerance tolerance,
                  const std::string& name);

/// Forward of `op` (its phase is ignored) on parameters, inputs and tokens: against the float64 reference with 1, 2 and
/// 3 threads; the same bits whatever the operands' offsets and which optional slots are bound.
void check_forward(tsr_op op, const Operands& operands, Tolerance tolerance = {2e-6});

/// Backward: as check_forward, into gradients that are overwritten (they start as NaN) and added to; the two halves
/// give the bits of the whole; a gradient that is left out changes no other.
void check_backward(tsr_op op, const Operands& operands, Tolerance tolerance = {4e-6});

/// The float64 reference's gradients against numerical ones.
void check_reference(const tsr_op& op, const Operands& operands);

}  // namespace tessera::testing
