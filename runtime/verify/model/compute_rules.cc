// Forward, backward and loss: an operand must be what the model names for the slot, whatever way it came there, and a
// result is what the model names. In
//
//     9     forward h.0.fc_proj mb=0  r %7+9088:4096 p:mlp.c_proj.weight  r %37 i:hidden  w %39 o:ffn_out
//
// %37 must hold h.0.hidden mb=0, and after it %39 holds h.0.ffn_out mb=0. A finding:
//
//     ... compute backward h.0.ln_1 mb=1 takes i0 (h.0.x) = activation h.0.mid mb=1, which holds h.0.mid mb=1; the
//     model needs h.0.x mb=1
//
// Gradients are sums: of a value over the segments that use it, of a parameter over its uses and the micro-batches; a
// backward takes a value's gradient when all addends are in it. Cost: linear in the pieces of the operands.

#include "base/concat.h"
#include "verify/model/rank_walk.h"

namespace tessera::host {

void RankWalk::count_phase() {
  const auto count = [&](SegmentPhase phase) {
    phases_[{action_->segment, action_->micro_batch, phase}].push_back(index_);
  };
  switch (action_->kind) {
    case TSR_ACTION_FORWARD:
      return count(SegmentPhase::forward);
    case TSR_ACTION_LOSS:
      return count(SegmentPhase::loss);
    case TSR_ACTION_BACKWARD:
      count(SegmentPhase::backward_input);
      return count(SegmentPhase::backward_weight);
    case TSR_ACTION_BACKWARD_INPUT:
      return count(SegmentPhase::backward_input);
    case TSR_ACTION_BACKWARD_WEIGHT:
      return count(SegmentPhase::backward_weight);
    default:
      return;  // a recomputation may run any number of times
  }
}

void RankWalk::compute() {
  count_phase();
  if (action_->kind == TSR_ACTION_LOSS && program_.purpose == TSR_PURPOSE_STEP) require_loss_scale();
  for (const Binding& binding : action_->bindings)
    if (binding.mode == TSR_MODE_READ) take_operand(binding);
  for (const Binding& binding : action_->bindings)
    if (binding.mode != TSR_MODE_READ) put_result(binding);
}

/// The rank's part of a parameter before its update; what pads it are zeros.
const ContentParts& RankWalk::parameter(int p) {
  const auto [found, is_new] = parameters_.try_emplace(p);
  ContentParts& parts = found->second;
  if (!is_new) return parts;
  const Parameter& parameter = program_.model->parameters[static_cast<size_t>(p)];
  Content value{ContentKind::state};
  value.role = TSR_HOME_VALUE;
  value.index = p;
  uint64_t end = 0;
  const auto real = [&](uint64_t begin, uint64_t num_elements) {
    if (begin > end) append(parts, {end, begin - end, {ContentKind::zero}});
    append(parts, {begin, num_elements, value});
    end = begin + num_elements;
  };
  if (!parameter.part) real(0, parameter.num_elements);
  if (parameter.part)
    for (const ParameterPiece& piece : parameter.part->pieces)
      real(piece.local_offset, piece.num_elements);
  if (end < parameter.num_elements) append(parts, {end, parameter.num_elements - end, {ContentKind::zero}});
  return parts;
}

void RankWalk::take_operand(const Binding& binding) {
  const Segment& segment = program_.model->segments[static_cast<size_t>(action_->segment)];
  const uint32_t slot = TSR_SLOT_INDEX(binding.slot);
  const int mb = action_->micro_batch;
  const auto of_segment = [&](ContentKind kind) {
    Content content{kind};
    content.index = action_->segment;
    content.part = static_cast<int>(slot);
    content.micro_batch = mb;
    return content;
  };
  switch (TSR_SLOT_ROLE(binding.slot)) {
    case TSR_ROLE_PARAMETER:
      return take_parameter(binding, segment.parameters[slot]);
    case TSR_ROLE_INPUT:
      take(binding, needs_.value(segment.inputs[slot], mb));
      return;
    case TSR_ROLE_OUTPUT:
      take(binding, needs_.value(segment.outputs[slot], mb));
      return;
    case TSR_ROLE_OUTPUT_GRADIENT:
      take(binding, needs_.value_gradient(segment.outputs[slot], mb));
      return;
    case TSR_ROLE_SAVED:
      take(binding, of_segment(ContentKind::saved));
      return;
    case TSR_ROLE_CONTEXT:
      take(binding, of_segment(ContentKind::context));
      return;
    case TSR_ROLE_SCALAR:
      take(binding, scalar(static_cast<int>(slot), 0));
      return;
    default:
      return;
  }
}

/// What is right because of what this rank keeps is not on ranks that keep other slices.
void RankWalk::take_parameter(const Binding& binding, int p) {
  if (!take(binding, parameter(p)) || walked_axes_ == 0) return;
  for (const ContentPart& part : by_element(contents_.read(binding), homes_))
    if (part.content.local != 0)
      return report(concat("takes ", slot_text(program_, *action_, binding.slot), " = ", range_text(program_, binding),
                           ", which holds ", text(part.content),
                           " on this rank alone: other ranks with this program keep other slices"));
}

void RankWalk::put_gradient(const Binding& binding, int addend, Content sum) {
  if (addend < 0)
    return report(concat("writes ", slot_text(program_, *action_, binding.slot), ", which has no gradient"));
  add(binding, sum, static_cast<uint32_t>(addend));
}

/// Micro-batches are added in ascending order, which says how the sum is rounded. With --reduce-every micro-batch each
/// micro-batch's gradient is a sum of its own until it is complete: added as it is computed, it would round differently
/// on one rank and on several.
void RankWalk::check_micro_batches(const Binding& binding, int parameter) {
  if (binding.mode != TSR_MODE_ADD) return;
  for (const ContentPart& part : contents_.read(binding)) {
    if (part.content.kind != ContentKind::gradient || part.content.addends == 0) continue;
    const AddendSets::Set& addends = context_.sets.set(part.content.addends);
    const int first = needs_.micro_batch_of(parameter, addends.front());
    const int last = needs_.micro_batch_of(parameter, addends.back());
    if (last > action_->micro_batch)
      return report(concat("adds to ", range_text(program_, binding), ", which holds the gradient of mb=", last,
                           " already; micro-batches are added in ascending order"));
    if (program_.step_config.reduce_every == TSR_EVERY_MICRO_BATCH && first < action_->micro_batch)
      return report(concat("adds to ", range_text(program_, binding),
                           ", which holds the gradient of another "
                           "micro-batch; with --reduce-every micro-batch each has a sum of its own"));
  }
}

void RankWalk::put_result(const Binding& binding) {
  const Segment& segment = program_.model->segments[static_cast<size_t>(action_->segment)];
  const uint32_t slot = TSR_SLOT_INDEX(binding.slot);
  const int mb = action_->micro_batch;
  int addend = -1;
  Content kept{}, sum;
  kept.index = action_->segment;
  kept.part = static_cast<int>(slot);
  kept.micro_batch = mb;
  switch (TSR_SLOT_ROLE(binding.slot)) {
    case TSR_ROLE_OUTPUT:
      return contents_.write(binding, needs_.value(segment.outputs[slot], mb));
    case TSR_ROLE_SAVED:
      kept.kind = ContentKind::saved;
      return contents_.write(binding, kept);
    case TSR_ROLE_CONTEXT:
      kept.kind = ContentKind::context;
      return contents_.write(binding, kept);
    case TSR_ROLE_INPUT_GRADIENT:
      return put_gradient(binding, needs_.input_addend(action_->segment, slot),
                          needs_.value_gradient(segment.inputs[slot], mb));
    case TSR_ROLE_GRADIENT:
      addend = needs_.parameter_addend(action_->segment, slot, mb);
      if (addend >= 0) check_micro_batches(binding, segment.parameters[slot]);
      sum = needs_.gradient(segment.parameters[slot]);
      sum.summed = 0;
      return put_gradient(binding, addend, sum);
    case TSR_ROLE_SCALAR:
      return add(binding, {slot == TSR_SCALAR_LOSS ? ContentKind::loss : ContentKind::correct},
                 static_cast<uint32_t>(mb));
    default:
      return;
  }
}

}  // namespace tessera::host
