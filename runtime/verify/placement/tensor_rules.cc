// What compute does to placements on an axis that splits tensors. All ranks have the same tokens; which tensors are
// shards follows from the dims of parameters and values and from the contractions of a segment. In a block under
// Megatron's cut:
//
//     forward qkv          weight split by heads (its columns)     -> qkv is a shard
//     forward attention    works on the rank's heads               -> attended is a shard
//     forward proj         contracts heads, which are split        -> projected is partial: an all_reduce must follow
//     forward add_ln_2     needs projected replicated              -> replicated
//     backward qkv         output gradient a shard, input whole    -> the input's gradient is partial
//
// A maximum over a split dim (row maxima of the logits) is an `extremum` of each rank's part until it is reduced. Cost
// of an action: linear in the pieces of its operands, and a walk of the layout, with one more for each parameter.

#include <algorithm>
#include <functional>
#include <set>

#include "tessera/op_table.hpp"
#include "verify/placement/placement_rules.h"

namespace tessera::host {

/// How the tensors axis cuts a segment: which of its parameters and values carry a dim that the layout splits.
class SegmentCut {
 public:
  SegmentCut(const Program& program, const Segment& segment, int axis) : program_(program), segment_(segment) {
    for (const LayoutEntry& split : program.layout)
      if (split.axis == axis && split.kind == TSR_LAYOUT_SPLIT && split.dim >= 0)
        names_.insert(program.model->parameters[split.parameter].dims[split.dim].name);
    for (const int p : segment.parameters) {
      const LayoutEntry* split = entry_on(program, p, axis, TSR_HOME_VALUE);
      is_split_.push_back(split && split->kind == TSR_LAYOUT_SPLIT && split->dim >= 0);
    }
  }

  /// True when nothing of the segment is split.
  bool empty() const {
    const auto splits = [&](int value) { return splits_value(value); };
    return std::ranges::none_of(is_split_, std::identity()) && std::ranges::none_of(segment_.inputs, splits) &&
           std::ranges::none_of(segment_.outputs, splits);
  }
  /// Whether a dim is split that the op needs whole.
  bool splits_whole_dim() const {
    const op::OpEntry* entry = op::find_op(segment_.op.kind);
    return entry &&
           std::ranges::any_of(entry->whole, [&](int dim) { return names_.contains(segment_.dim_names[dim]); });
  }
  bool splits_parameter(uint32_t position) const { return is_split_[position]; }
  /// Whether it has a dim that the axis splits.
  bool should_split_parameter(uint32_t position) const {
    return std::ranges::any_of(program_.model->parameters[segment_.parameters[position]].dims,
                               [&](const tsr_dim& dim) { return names_.contains(dim.name); });
  }
  bool splits_value(int value) const {
    return std::ranges::any_of(program_.model->values[value].dims,
                               [&](const tsr_dim& dim) { return names_.contains(dim.name); });
  }
  bool splits_outputs() const {
    return std::ranges::any_of(segment_.outputs, [&](int value) { return splits_value(value); });
  }
  /// The placement of an output after a contraction of a split dim: a partial sum, or one of several maxima.
  PlacementKind contracted() const {
    for (const tsr_contraction& c : segment_.contractions)
      if (names_.contains(c.dim)) return c.reduce == TSR_REDUCE_SUM ? PlacementKind::partial : PlacementKind::extremum;
    return PlacementKind::replicated;
  }

 private:
  const Program& program_;
  const Segment& segment_;
  std::vector<bool> is_split_;  // of each parameter of the segment
  std::set<uint32_t> names_;    // of dims that the axis splits
};

namespace {

/// The value of an input, an output, or the gradient of one; -1 for other slots.
int value_of(const Segment& segment, const Binding& binding) {
  const uint32_t index = TSR_SLOT_INDEX(binding.slot);
  switch (TSR_SLOT_ROLE(binding.slot)) {
    case TSR_ROLE_INPUT:
    case TSR_ROLE_INPUT_GRADIENT:
      return segment.inputs[index];
    case TSR_ROLE_OUTPUT:
    case TSR_ROLE_OUTPUT_GRADIENT:
      return segment.outputs[index];
    default:
      return -1;
  }
}

}  // namespace

// Values of a segment with split parameters are shards where they have the split dim; a contraction of a split dim
// leaves outputs partial, and split outputs leave the gradients of whole inputs partial. Other segments treat shards
// like wholes.
void PlacementRules::compute_on_tensor_axis() {
  const Segment& segment = program_.model->segments[action_->segment];
  const SegmentCut cut(program_, segment, axis_);
  if (cut.splits_whole_dim())
    return report("needs the whole of " +
                  (segment.parameters.empty() ? program_.model->values[segment.inputs[0]].name
                                              : program_.model->parameters[segment.parameters[0]].name) +
                  ", which is split over " + axis_name_ + "; split the op too, or leave its operands whole");
  bool on_parts =
      std::ranges::any_of(segment.parameters, [&](int p) { return program_.model->parameters[p].rows_axis == axis_; });
  for (const Binding& binding : action_->bindings)
    if (!is_output(binding) && take_on_tensor_axis(cut, binding)) on_parts = true;
  for (const Binding& binding : action_->bindings)
    if (is_output(binding)) put(binding, {placement_on_tensor_axis(cut, binding, on_parts)});
}

/// Checks an operand. True when it makes a segment without split parameters work on parts.
bool PlacementRules::take_on_tensor_axis(const SegmentCut& cut, const Binding& binding) {
  const int value = value_of(program_.model->segments[action_->segment], binding);
  if (has_role(binding, TSR_ROLE_PARAMETER)) {
    const uint32_t position = TSR_SLOT_INDEX(binding.slot);
    const bool split = cut.splits_parameter(position);
    if (!split && cut.should_split_parameter(position))
      report("takes the whole of " + text(binding, {PlacementKind::replicated}) +
             ", but the dim is split elsewhere: the segment works on parts");
    expect(binding, bit(split ? PlacementKind::shard : PlacementKind::replicated), "the layout places it differently");
    return false;
  }
  if (value >= 0 && !cut.empty()) {
    const bool split = cut.splits_value(value);
    expect(binding, bit(split ? PlacementKind::shard : PlacementKind::replicated),
           split ? "the segment works on parts" : "the segment needs the whole; is a collective missing?");
    return false;
  }
  expect(binding, bit(PlacementKind::replicated) | bit(PlacementKind::shard),
         "the action needs the sum; is a collective missing?");
  const bool is_activation = value >= 0 && program_.model->values[value].kind == TSR_VALUE_ACTIVATION;
  return is_activation && common_placement(placements_.read(binding)).kind == PlacementKind::shard;
}

PlacementKind PlacementRules::placement_on_tensor_axis(const SegmentCut& cut, const Binding& binding,
                                                       bool on_parts) const {
  const int value = value_of(program_.model->segments[action_->segment], binding);
  const bool is_gradient = has_role(binding, TSR_ROLE_GRADIENT);
  if (cut.empty()) {
    if (!on_parts) return PlacementKind::replicated;
    return is_gradient || has_role(binding, TSR_ROLE_SCALAR) ? PlacementKind::partial : PlacementKind::shard;
  }
  if (is_gradient && cut.splits_parameter(TSR_SLOT_INDEX(binding.slot))) return PlacementKind::shard;
  if (value >= 0 && cut.splits_value(value)) return PlacementKind::shard;
  if (has_role(binding, TSR_ROLE_SCALAR)) return PlacementKind::replicated;
  if (has_role(binding, TSR_ROLE_OUTPUT)) return cut.contracted();
  if (value >= 0 || is_gradient) return cut.splits_outputs() ? PlacementKind::partial : PlacementKind::replicated;
  return PlacementKind::shard;
}

}  // namespace tessera::host
