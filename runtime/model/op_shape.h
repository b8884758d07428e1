// How the dims of an op's operands hang together, so that whoever builds a model writes no extent twice.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/program.h"

namespace tessera::host {

/// The entry of an op. Operands are words, and a dim is a letter, which stands for the same extent and the same name
/// (TSR_NAME_*) wherever it occurs:
///
///     B T   batch and sequence        C       width (TSR_DIM_EMBED)      V   vocabulary
///     H D   heads, width of a head    I, O    in and out of a product    P   positions
///
/// "(3HD)" is one dim of 3 blocks of H times D elements, of which H may be cut. T is absent from all operands in a
/// model without sequences; the op then has SEQ 1. A word that ends in ? may be left out.
struct OpShape {
  uint32_t kind = 0;  ///< TSR_OP_*
  std::string_view parameters;
  std::string_view inputs;
  std::string_view outputs;
  char contracted = 0;         ///< the dim that the op sums over; 0: none
  int shares_gradient = -1;    ///< the input whose gradient is the first output's; -1: none
  bool works_by_rows = false;  ///< does the same to every row (token), whatever the others are, and needs no product
};

/// Throws NOT_FOUND for an op that no model is built of.
const OpShape& shape_of_op(uint32_t kind);

/// An operand that is there: its name, for errors, and its dims.
struct Operand {
  std::string name;
  std::span<const tsr_dim> dims;
};

/// What an op is applied to.
struct OpOperands {
  std::vector<Operand> parameters;
  std::vector<Operand> inputs;
};

/// What follows from the operands.
struct InferredOp {
  tsr_op op{};                            ///< kind and extents, and the attributes that follow from operands
  uint32_t dim_names[TSR_NUM_DIMS] = {};  ///< TSR_NAME_* of op.dims; 0: none
  std::vector<std::vector<tsr_dim>> outputs;
  std::vector<tsr_contraction> contractions;
};

/// Throws INVALID_ARGUMENT for too few or too many operands, and, naming both, for two that contradict each other.
InferredOp infer_op(const OpShape& shape, const OpOperands& operands);

}  // namespace tessera::host
