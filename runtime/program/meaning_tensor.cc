#include <algorithm>

#include "program/meaning_rules.h"

namespace tessera {

/// How the tensors axis cuts a segment: the names of the dims in which its parameters are split.
class SegmentCut {
 public:
  SegmentCut(const Program& program, const Segment& segment, int axis) : program_(program), segment_(segment) {
    for (const int p : segment.parameters) {
      const Split* split = split_on(program, p, axis, TSR_HOME_VALUE);
      const bool cut = split && split->kind == TSR_LAYOUT_SPLIT && split->dim >= 0;
      is_split_.push_back(cut);
      if (cut) names_.push_back(program.model->parameters[p].dims[split->dim].name);
    }
  }

  bool empty() const { return names_.empty(); }
  bool splits_parameter(uint32_t position) const { return is_split_[position]; }
  bool splits_value(int value) const {
    return std::ranges::any_of(program_.model->values[value].dims, [&](const tsr_dim& dim) { return has(dim.name); });
  }
  bool splits_outputs() const {
    return std::ranges::any_of(segment_.outputs, [&](int value) { return splits_value(value); });
  }
  bool splits_contraction() const {
    return std::ranges::any_of(segment_.contractions, [&](const tsr_contraction& c) { return has(c.dim); });
  }

 private:
  bool has(uint32_t name) const { return std::ranges::find(names_, name) != names_.end(); }

  const Program& program_;
  const Segment& segment_;
  std::vector<bool> is_split_;  // of each parameter of the segment
  std::vector<uint32_t> names_;
};

namespace {

/// The value behind an input, an output, or the gradient of one; -1 for other slots.
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

// All ranks have the same tokens. A segment whose parameters are split has its values split where they carry the split
// dim; a split contraction leaves outputs partial, and split outputs leave gradients of whole inputs partial. Other
// segments do to parts what they do to wholes.
void MeaningRules::compute_on_tensor_axis() {
  const Segment& segment = program_.model->segments[action_->segment];
  const SegmentCut cut(program_, segment, axis_);
  if (action_->kind == TSR_ACTION_LOSS && !cut.empty())
    return report("needs the whole of " + program_.model->parameters[segment.parameters[0]].name +
                  ", which is split over " + axis_name_ + ": the tail must be split too");
  bool on_parts = false;
  for (const Binding& binding : action_->bindings)
    if (!is_output(binding) && take_on_tensor_axis(cut, binding)) on_parts = true;
  for (const Binding& binding : action_->bindings)
    if (is_output(binding)) put(binding, {state_on_tensor_axis(cut, binding, on_parts)});
}

/// Checks an operand. True when it makes a segment without split parameters work on parts.
bool MeaningRules::take_on_tensor_axis(const SegmentCut& cut, const Binding& binding) {
  const int value = value_of(program_.model->segments[action_->segment], binding);
  if (has_role(binding, TSR_ROLE_PARAMETER)) {
    const bool split = cut.splits_parameter(TSR_SLOT_INDEX(binding.slot));
    expect(binding, bit(split ? State::split : State::replicated), "the layout says otherwise");
    return false;
  }
  if (value >= 0 && !cut.empty()) {
    const bool split = cut.splits_value(value);
    expect(binding, bit(split ? State::split : State::replicated),
           split ? "the segment works on parts" : "the segment needs the whole; is a collective missing?");
    return false;
  }
  expect(binding, bit(State::replicated) | bit(State::split), "the action needs the sum; is a collective missing?");
  const bool is_activation = value >= 0 && program_.model->values[value].kind == TSR_VALUE_ACTIVATION;
  return is_activation && common_meaning(meanings_.read(binding)).state == State::split;
}

State MeaningRules::state_on_tensor_axis(const SegmentCut& cut, const Binding& binding, bool on_parts) const {
  const int value = value_of(program_.model->segments[action_->segment], binding);
  const bool is_gradient = has_role(binding, TSR_ROLE_GRADIENT);
  if (cut.empty()) {
    if (!on_parts) return State::replicated;
    return is_gradient || has_role(binding, TSR_ROLE_SCALAR) ? State::partial : State::split;
  }
  if (is_gradient && cut.splits_parameter(TSR_SLOT_INDEX(binding.slot))) return State::split;
  if (value >= 0 && cut.splits_value(value)) return State::split;
  if (has_role(binding, TSR_ROLE_OUTPUT)) return cut.splits_contraction() ? State::partial : State::replicated;
  if (value >= 0 || is_gradient) return cut.splits_outputs() ? State::partial : State::replicated;
  return State::split;
}

}  // namespace tessera
