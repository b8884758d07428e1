#include <algorithm>

#include "program/meaning_rules.h"

namespace tessera {
namespace {

bool is_output(const Binding& binding) {
  return binding.mode != TSR_MODE_READ;
}
bool has_role(const Binding& binding, uint32_t role) {
  return TSR_SLOT_ROLE(binding.slot) == role;
}
bool is_loss(const Binding& binding) {
  return binding.slot == TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_LOSS);
}

const char* const kNotTaken = "the action needs the sum; is a collective missing?";

/// How the tensors axis cuts a segment: the names of the dims in which its parameters are split.
class SegmentCut {
 public:
  SegmentCut(const Program& program, const Segment& segment, int axis) : program_(program), segment_(segment) {
    for (const int p : segment.parameters) {
      const Split* split = split_on_axis(program, p, axis, TSR_HOME_VALUE);
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

int MeaningRules::parameter_at(const Binding& binding) const {
  return program_.model->segments[action_->segment].parameters[TSR_SLOT_INDEX(binding.slot)];
}

void MeaningRules::compute() {
  switch (splits_) {
    case TSR_SPLITS_LAYERS:
      return compute_on_layer_axis();
    case TSR_SPLITS_TENSORS:
      return compute_on_tensor_axis();
    default:
      return compute_on_batch_axis();
  }
}

// Every rank has its own tokens: what it computes is its own, gradients and loss are addends.
void MeaningRules::compute_on_batch_axis() {
  const uint32_t any_but_partial = bit(State::replicated) | bit(State::different) | bit(State::split);
  const uint32_t whole = bit(State::replicated) | bit(State::different);
  for (const Binding& binding : action_->bindings) {
    if (is_output(binding)) continue;
    if (has_role(binding, TSR_ROLE_PARAMETER))
      expect(binding, whole, "the action needs the whole parameter; is a collective missing?");
    else
      expect(binding, any_but_partial, kNotTaken);
  }
  for (const Binding& binding : action_->bindings) {
    if (!is_output(binding)) continue;
    State state = State::different;
    if (is_loss(binding)) state = State::partial;
    if (has_role(binding, TSR_ROLE_GRADIENT)) {
      const bool diverges = layout_state(program_, parameter_at(binding), axis_, TSR_HOME_VALUE) == State::different;
      state = diverges ? State::different : State::partial;
    }
    put(binding, {state});
  }
}

// Every rank runs other segments on the same tokens. Values that pass from one to the next count as the same on all;
// what several stages add to (a tied parameter's gradient, the loss) is partial.
void MeaningRules::compute_on_layer_axis() {
  for (const Binding& binding : action_->bindings) {
    if (is_output(binding)) continue;
    const bool is_parameter = has_role(binding, TSR_ROLE_PARAMETER);
    const State state =
        is_parameter ? layout_state(program_, parameter_at(binding), axis_, TSR_HOME_VALUE) : State::replicated;
    expect(binding, bit(state), is_parameter ? "the layout says otherwise" : kNotTaken);
  }
  for (const Binding& binding : action_->bindings) {
    if (!is_output(binding)) continue;
    State state = State::replicated;
    if (is_loss(binding)) state = State::partial;
    if (has_role(binding, TSR_ROLE_GRADIENT)) {
      const State home = layout_state(program_, parameter_at(binding), axis_, TSR_HOME_GRADIENT);
      state = home == State::replicated ? State::partial : home;
    }
    put(binding, {state});
  }
}

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
  for (const Binding& binding : action_->bindings) {
    if (is_output(binding)) continue;
    const int value = value_of(segment, binding);
    const bool is_activation = value >= 0 && program_.model->values[value].kind == TSR_VALUE_ACTIVATION;
    if (has_role(binding, TSR_ROLE_PARAMETER)) {
      const bool split = cut.splits_parameter(TSR_SLOT_INDEX(binding.slot));
      expect(binding, bit(split ? State::split : State::replicated), "the layout says otherwise");
    } else if (value >= 0 && !cut.empty()) {
      const bool split = cut.splits_value(value);
      expect(binding, bit(split ? State::split : State::replicated),
             split ? "the segment works on parts" : "the segment needs the whole; is a collective missing?");
    } else {
      expect(binding, bit(State::replicated) | bit(State::split), kNotTaken);
      if (is_activation && common_meaning(meanings_.read(binding)).state == State::split) on_parts = true;
    }
  }
  const auto state_of = [&](const Binding& binding) {
    const int value = value_of(segment, binding);
    const bool is_gradient = has_role(binding, TSR_ROLE_GRADIENT);
    if (cut.empty()) {
      if (!on_parts) return State::replicated;
      return is_gradient || is_loss(binding) ? State::partial : State::split;
    }
    if (is_gradient && cut.splits_parameter(TSR_SLOT_INDEX(binding.slot))) return State::split;
    if (value >= 0 && cut.splits_value(value)) return State::split;
    if (has_role(binding, TSR_ROLE_OUTPUT)) return cut.splits_contraction() ? State::partial : State::replicated;
    if (value >= 0 || is_gradient) return cut.splits_outputs() ? State::partial : State::replicated;
    return State::split;
  };
  for (const Binding& binding : action_->bindings)
    if (is_output(binding)) put(binding, {state_of(binding)});
}

}  // namespace tessera
