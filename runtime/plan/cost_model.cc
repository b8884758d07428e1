// Estimates the time of an action by the roofline model (Williams, Waterman, Patterson 2009): the longer one of
// arithmetic at peak rate and of moving all operands once at peak bandwidth; for a collective, its bytes over one link.
// It has no latency and no efficiency factors. It is good enough to draw a step and to see which stream idles, not to
// predict a step's time.

#include "plan/cost_model.h"

#include <algorithm>

#include "plan/traffic.h"
#include "program/lower_op.h"

namespace tessera::host {
namespace {

double forward_operations(const tsr_op& op) {
  const auto dim = [&](int d) { return static_cast<double>(op.dims[d]); };
  const double num_tokens = dim(TSR_DIM_BATCH) * dim(TSR_DIM_SEQ);
  switch (op.kind) {
    case TSR_OP_LINEAR:
      return 2 * num_tokens * dim(TSR_DIM_IN) * dim(TSR_DIM_OUT);
    case TSR_OP_ATTENTION:
      // Two products (scores, and scores times values) of 2 S H D operations a token; the causal mask halves them.
      return 2 * num_tokens * dim(TSR_DIM_SEQ) * dim(TSR_DIM_HEADS) * dim(TSR_DIM_HEAD_DIM);
    case TSR_OP_LOSS:
    case TSR_OP_HEAD_LOGITS:
      return 2 * num_tokens * dim(TSR_DIM_EMBED) * dim(TSR_DIM_VOCAB);
    default:
      return 0;
  }
}

double memory_bytes(const Program& program, const Action& action) {
  uint64_t num_bytes = 0;
  for (const Binding& binding : action.bindings)
    num_bytes += binding.num_elements * TSR_DTYPE_BYTES(program.buffer(binding.buffer).dtype);
  return static_cast<double>(num_bytes);
}

}  // namespace

double num_operations(const tsr_op& op) {
  const double forward = forward_operations(op);
  // One product for the gradient of the input, one for that of the weight. A backward that is split has one in each
  // half.
  if (op.phase != TSR_PHASE_BACKWARD) return forward;
  return op.kind == TSR_OP_LOSS ? 3 * forward : 2 * forward;  // the loss computes its logits there
}

double estimated_seconds(const Program& program, const Action& action, const MachineRates& rates) {
  if (is_collective(action.kind)) return static_cast<double>(sent_bytes(program, action)) / rates.link_bytes;
  const double operations = is_compute(action.kind) ? num_operations(op_of(program, action)) : 0;
  return std::max(operations / rates.operations, memory_bytes(program, action) / rates.memory_bytes);
}

}  // namespace tessera::host
