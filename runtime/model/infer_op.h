// What an op does to the dims of its operands, so that a model states no extent twice.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/program.h"

namespace tessera::host {

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

/// An output: its dims, and whether it is float32 whatever the op's dtype is.
struct InferredOutput {
  std::vector<tsr_dim> dims;
  bool is_float32 = false;
};

/// What follows from the operands and the op's entry in tessera/ops.inc.
struct InferredOp {
  tsr_op op{};                            ///< kind, extents, and the attributes that follow from operands
  uint32_t dim_names[TSR_NUM_DIMS] = {};  ///< TSR_DIM_* of op.dims; 0: none
  std::vector<InferredOutput> outputs;
  std::vector<tsr_contraction> contractions;
  int shares_gradient = -1;  ///< the input whose gradient is the first output's; -1: none
  bool is_row_wise = false;  ///< does the same to every row (token), whatever the others are, and needs no product
};

/// Throws NOT_FOUND for an op that no model is built of; INVALID_ARGUMENT for too few or too many operands and, naming
/// both, for two that contradict each other.
InferredOp infer_op(uint32_t kind, const OpOperands& operands);

}  // namespace tessera::host
