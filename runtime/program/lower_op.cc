// Lowers an action to the op of a device. The planner asks describe(op) and the executor prepare(op) for the op that is
// made here, so what is planned is what runs.
//
// The ranges of `sum_squares` and `optimizer` are not part of that op. They depend on which elements the rank owns, and
// are filled in when the kernel is prepared. Equal ranks therefore have equal program texts, although they own
// different elements.

#include "program/lower_op.h"

#include <algorithm>

#include "tessera/error.hpp"
#include "tessera/op_table.hpp"

namespace tessera::host {
namespace {

uint32_t phase_of(const Program& program, const Action& action) {
  switch (action.kind) {
    case TSR_ACTION_FORWARD:
    case TSR_ACTION_RECOMPUTE:
      return TSR_PHASE_FORWARD;
    case TSR_ACTION_BACKWARD:
      return TSR_PHASE_BACKWARD;
    case TSR_ACTION_BACKWARD_INPUT:
      return TSR_PHASE_BACKWARD_INPUT;
    case TSR_ACTION_BACKWARD_WEIGHT:
      return TSR_PHASE_BACKWARD_WEIGHT;
    // LOSS computes the loss and its gradients in one phase; eval needs the loss alone.
    default:
      return program.purpose == TSR_PURPOSE_EVAL ? TSR_PHASE_FORWARD : TSR_PHASE_BACKWARD;
  }
}

uint32_t op_kind(const Program& program, const Action& action) {
  if (is_elementwise(action.kind) || action.kind == TSR_ACTION_SUM_SQUARES || action.kind == TSR_ACTION_CLIP)
    return action.kind;
  if (action.kind == TSR_ACTION_OPTIMIZER) return program.step_config.optimizer;
  throw Error(TSR_E_INVALID_ARGUMENT, std::string(action_name(action.kind)) + " is not an op of a device");
}

tsr_dtype dtype_at(const Program& program, const Action& action, uint32_t role) {
  const Binding* binding = action.find(TSR_SLOT(role, 0));
  return binding ? program.buffer(binding->buffer).dtype : TSR_F32;
}

/// Joins adjacent ranges of equal weight decay and learning rate.
void append(std::vector<tsr_op_range>& ranges, const tsr_op_range& range) {
  if (!ranges.empty() && ranges.back().offset + ranges.back().num_elements == range.offset &&
      ranges.back().weight_decay == range.weight_decay && ranges.back().lr_scale == range.lr_scale)
    ranges.back().num_elements += range.num_elements;
  else
    ranges.push_back(range);
}

/// Where several ranks hold an element, one of them counts it in the norm: the rank that has the first coordinate of
/// every axis over which the gradient is replicated. On an axis that splits the parameter, or lets it diverge, all
/// ranks count.
bool counts_here(const Program& program, int parameter) {
  for (size_t axis = 0; axis < program.mesh->axes().size(); ++axis) {
    const LayoutEntry* split = entry_on(program, parameter, static_cast<int>(axis), TSR_HOME_GRADIENT);
    if (split && split->kind != TSR_LAYOUT_REPLICATED) continue;
    const int first = split && !split->coordinates.empty() ? split->coordinates.front() : 0;
    if (program.coordinates[axis] != first) return false;
  }
  return true;
}

}  // namespace

tsr_op trimmed(tsr_op op) {
  const op::OpEntry* const entry = op::find_op(op.kind);
  for (int i = 0; entry && i < TSR_NUM_DIMS; ++i)
    if (!(entry->dims >> i & 1)) op.dims[i] = 0;
  for (int i = 0; entry && i < TSR_NUM_ATTRIBUTES; ++i)
    if (!(entry->attributes >> i & 1)) op.attributes[i] = 0;
  return op;
}

tsr_op op_of(const Program& program, const Action& action) {
  if (is_compute(action.kind)) {
    tsr_op op = program.model->segments.at(action.segment).op;
    op.phase = phase_of(program, action);
    return trimmed(op);
  }
  tsr_op op{};
  op.struct_size = sizeof op;
  op.kind = op_kind(program, action);
  const bool reads = action.find(kSource) != nullptr;
  op.dtype = dtype_at(program, action, reads ? TSR_ROLE_SOURCE : TSR_ROLE_DESTINATION);
  op.destination_dtype = dtype_at(program, action, TSR_ROLE_DESTINATION);
  for (const Binding& binding : action.bindings) {
    const uint32_t role = TSR_SLOT_ROLE(binding.slot);  // scalars may be larger than a small parameter
    if (role == TSR_ROLE_SOURCE || role == TSR_ROLE_DESTINATION)
      op.dims[TSR_DIM_ELEMENTS] = std::max(op.dims[TSR_DIM_ELEMENTS], static_cast<int64_t>(binding.num_elements));
  }
  op.attributes[TSR_ATTR_SCALE] = action.scale;
  op.attributes[TSR_ATTR_MAX_NORM] = program.step_config.max_norm;
  // Over every axis (finalize.cc), so that no update happens without the squares of all ranks.
  op.attributes[TSR_ATTR_ARRIVALS] = program.mesh->num_ranks();
  op.attributes[TSR_ATTR_BETA1] = program.step_config.beta1;
  op.attributes[TSR_ATTR_BETA2] = program.step_config.beta2;
  op.attributes[TSR_ATTR_EPSILON] = program.step_config.epsilon;
  return trimmed(op);
}

tsr_op optimizer_op(const Program& program) {
  Action update;
  update.kind = TSR_ACTION_OPTIMIZER;
  return op_of(program, update);
}

double num_operations(const tsr_op& op) {
  const op::OpEntry* entry = op::find_op(op.kind);
  return entry ? entry->operations(op) : 0;
}

std::vector<tsr_op_range> optimizer_ranges(const Program& program, const Home& home) {
  std::vector<tsr_op_range> ranges;
  for (const HomeRange& range : ranges_of(home)) {
    // As in GPT-2's recipe: matrices decay, biases and norms do not.
    const bool decays = program.model->parameters[range.parameter].dims.size() >= 2;
    append(ranges, {range.home_offset, range.num_elements, decays ? program.step_config.weight_decay : 0.0, 1.0});
  }
  return ranges;
}

std::vector<tsr_op_range> counted_ranges(const Program& program, const Home& home) {
  std::vector<tsr_op_range> ranges;
  for (const HomeRange& range : ranges_of(home))
    if (counts_here(program, range.parameter)) append(ranges, {range.home_offset, range.num_elements, 0.0, 1.0});
  return ranges;
}

std::vector<tsr_op_range> op_ranges_of(const Program& program, const Action& action) {
  if (action.kind == TSR_ACTION_SUM_SQUARES) return counted_ranges(program, program.home(action.home));
  if (action.kind == TSR_ACTION_OPTIMIZER) return optimizer_ranges(program, program.home(action.home));
  return {};
}

}  // namespace tessera::host
