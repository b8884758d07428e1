// The ops of segments in float64, as plain loops: what the kernels of devices are compared with.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tessera/device.h"

namespace tessera::testing {

using Tensor = std::vector<double>;
/// Tensors by slot (TSR_SLOT).
using Tensors = std::map<uint32_t, Tensor>;
using TokenLists = std::map<uint32_t, std::vector<int32_t>>;

/// Outputs of the op, and its saved tensors; of LOSS and LOSS_GRAD, the sum of the losses in x:LOSS.
Tensors reference_forward(const tsr_op& op, const Tensors& operands, const TokenLists& tokens);

/// Gradients (roles GRADIENT and INPUT_GRADIENT) that the op's backward gives, of sum(do_k * o_k), or of LOSS times its
/// attribute SCALE; of LOSS_GRAD, what it says. `operands` holds parameters, inputs and output gradients.
Tensors reference_backward(const tsr_op& op, const Tensors& operands, const TokenLists& tokens);

/// The gradient at `slot` of what reference_backward differentiates, by central differences of reference_forward.
/// For LOSS and ATTENTION that is slow: small extents only. LOSS_GRAD has none: its operands depend on each other.
Tensor numerical_gradient(const tsr_op& op, Tensors operands, const TokenLists& tokens, uint32_t slot);

}  // namespace tessera::testing
