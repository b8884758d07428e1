// The independent statement that verify_model holds programs against. It follows from segments, values and the table of
// ops; the program's actions have no part in it.
//
//     gradient of a parameter   each use by a segment whose op has a gradient for it, times micro-batches
//     gradient of a value       each use as an input with a gradient of its own; values that share a gradient are one
//     backward of a segment     needed where it leads to a trainable parameter
//
// Cost: linear in the operands of segments, and in the addends of all parameters; what is asked later takes constant
// time.

#include "verify/model/needs.h"

#include <algorithm>
#include <numeric>

#include "tessera/op_table.hpp"

namespace tessera::host {
namespace {

const op::OperandEntry* operand_of(const op::OpEntry& entry, uint32_t role, uint32_t index) {
  const auto found = std::ranges::find_if(
      entry.operands, [&](const op::OperandEntry& o) { return o.role == role && o.index == index; });
  return found == entry.operands.end() ? nullptr : found;
}

AddendSets::Set first(int n) {
  AddendSets::Set all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

}  // namespace

uint32_t axes_of_tokens(const Mesh& mesh, int axis) {
  uint32_t axes = 0;
  for (size_t i = 0; i < mesh.axes().size(); ++i)
    if (mesh.axes()[i].splits == TSR_SPLITS_BATCH && mesh.axes()[i].num_ranks > 1 &&
        (axis == TSR_WORLD_AXIS || axis == static_cast<int>(i)))
      axes |= 1u << i;
  return axes;
}

ModelNeeds::ModelNeeds(const Program& program, AddendSets& sets)
    : model_(*program.model),
      num_micro_batches_(program.step_config.num_micro_batches),
      axes_of_tokens_(axes_of_tokens(*program.mesh)) {
  for (const Value& value : model_.values)
    is_in_rows_.push_back(
        std::ranges::any_of(value.splits, [](const ValueSplit& split) { return split.dim == TSR_DIM_ROWS; }));
  input_uses_.assign(model_.values.size(), 0);
  gradient_uses_.assign(model_.parameters.size(), 0);
  for (const Segment& segment : model_.segments)
    count_uses(segment);
  find_backwards();
  find_reductions();
  find_gradient_axes(program);
  for (const int n : input_uses_)
    all_inputs_.push_back(sets.id_of(first(n)));
  for (const int n : gradient_uses_)
    all_gradients_.push_back(sets.id_of(first(n * static_cast<int>(num_micro_batches_))));
  all_micro_batches_ = sets.id_of(first(static_cast<int>(num_micro_batches_)));
}

void ModelNeeds::count_uses(const Segment& segment) {
  auto& inputs = input_addends_.emplace_back(segment.inputs.size(), -1);
  auto& parameters = parameter_addends_.emplace_back(segment.parameters.size(), -1);
  const op::OpEntry* entry = op::find_op(segment.op.kind);
  if (!entry || entry->backward == op::Backward::none) return;
  for (uint32_t i = 0; i < segment.inputs.size(); ++i) {
    const op::OperandEntry* operand = operand_of(*entry, TSR_ROLE_INPUT, i);
    const int v = segment.inputs[i];
    if (!operand || !operand->has_gradient || operand->is_alias) continue;
    if (model_.values[static_cast<size_t>(v)].kind == TSR_VALUE_ACTIVATION)
      inputs[i] = input_uses_[static_cast<size_t>(gradient_root(v))]++;
  }
  for (uint32_t i = 0; i < segment.parameters.size(); ++i) {
    const op::OperandEntry* operand = operand_of(*entry, TSR_ROLE_PARAMETER, i);
    const auto p = static_cast<size_t>(segment.parameters[i]);
    if (!operand || !operand->has_gradient || !operand->exists.holds(segment.op)) continue;
    if (model_.parameters[p].trainable) parameters[i] = gradient_uses_[p]++;
  }
}

/// Segments are in forward order, so what makes an input comes before its use.
void ModelNeeds::find_backwards() {
  std::vector<bool> leads(model_.values.size(), false);  // to a trainable parameter
  for (size_t s = 0; s < model_.segments.size(); ++s) {
    const Segment& segment = model_.segments[s];
    needs_parameter_gradient_.push_back(
        std::ranges::any_of(parameter_addends_[s], [](int addend) { return addend >= 0; }));
    needs_input_gradient_.push_back(false);
    bool needed = needs_parameter_gradient_.back();
    for (size_t i = 0; i < segment.inputs.size(); ++i)
      if (leads[static_cast<size_t>(value(segment.inputs[i], 0).index)]) {
        needed = true;
        if (input_addends_[s][i] >= 0) needs_input_gradient_.back() = true;
      }
    for (const int v : segment.outputs)
      if (needed) leads[static_cast<size_t>(value(v, 0).index)] = true;
    needs_backward_.push_back(needed && segment.has_backward);
  }
}

void ModelNeeds::find_reductions() {
  reductions_.assign(model_.values.size(), TSR_REDUCE_SUM);
  for (const Segment& segment : model_.segments)
    for (const tsr_contraction& contraction : segment.contractions)
      for (const int v : segment.outputs)
        reductions_[static_cast<size_t>(value(v, 0).index)] = contraction.reduce;
}

/// All with tokens of their own, but those over which a parameter diverges.
void ModelNeeds::find_gradient_axes(const Program& program) {
  gradient_axes_.assign(model_.parameters.size(), axes_of_tokens_);
  for (const LayoutEntry& entry : program.layout)
    if (entry.kind == TSR_LAYOUT_DIVERGENT) gradient_axes_[static_cast<size_t>(entry.parameter)] &= ~(1u << entry.axis);
}

uint32_t ModelNeeds::reduction(const Content& content) const {
  return content.kind == ContentKind::value ? reductions_[static_cast<size_t>(content.index)] : TSR_REDUCE_SUM;
}

Content ModelNeeds::value(int v, int micro_batch) const {
  const int same_as = model_.values[static_cast<size_t>(v)].same_as;
  Content content{ContentKind::value};
  content.index = same_as >= 0 ? same_as : v;
  content.is_rows = is_in_rows_[static_cast<size_t>(v)];
  content.micro_batch = micro_batch;
  return content;
}

/// The value whose gradient is in the same place.
int ModelNeeds::gradient_root(int v) const {
  while (true) {
    const Value& value = model_.values[static_cast<size_t>(v)];
    if (value.same_as < 0 && value.gradient_of < 0) return v;
    v = value.same_as >= 0 ? value.same_as : value.gradient_of;
  }
}

Content ModelNeeds::value_gradient(int v, int micro_batch) const {
  Content content = value(v, micro_batch);
  content.kind = ContentKind::value_gradient;
  content.index = gradient_root(v);
  content.addends = all_inputs_[static_cast<size_t>(content.index)];
  return content;
}

Content ModelNeeds::gradient(int parameter) const {
  Content content{ContentKind::gradient};
  content.index = parameter;
  content.addends = all_gradients_[static_cast<size_t>(parameter)];
  content.summed = gradient_axes_[static_cast<size_t>(parameter)];
  return content;
}

Content ModelNeeds::loss(ContentKind kind) const {
  Content content{kind};
  content.addends = all_micro_batches_;
  content.summed = axes_of_tokens_;
  return content;
}

std::vector<int> ModelNeeds::complete_micro_batches(int parameter, const AddendSets::Set& addends) const {
  std::vector<int> num_addends(num_micro_batches_), complete;
  for (const uint32_t addend : addends)
    ++num_addends[static_cast<size_t>(micro_batch_of(parameter, addend))];
  for (size_t mb = 0; mb < num_addends.size(); ++mb)
    if (num_addends[mb] == gradient_uses_[static_cast<size_t>(parameter)]) complete.push_back(static_cast<int>(mb));
  return complete;
}

int ModelNeeds::parameter_addend(int segment, uint32_t slot, int micro_batch) const {
  const int use = find(parameter_addends_, segment, slot);
  if (use < 0) return -1;
  const int p = model_.segments[static_cast<size_t>(segment)].parameters[slot];
  return micro_batch * gradient_uses_[static_cast<size_t>(p)] + use;
}

}  // namespace tessera::host
