// What forward, loss and backward do to placements on an axis of ranks with their own tokens, and on an axis of stages.
// In ddp's program the sums of the gradients matter:
//
//     38    backward h.0.ln_1 mb=0  ...  w %61+13568:32 g:ln_1.weight       %61 is partial: each rank has its own sum
//     42    all_reduce group=dp reduce=sum  a %61 dst                       %61 is replicated
//     43    sum_squares home=wte.weight  r %61+28928:3072 src               takes anything but partial
//
// Without line 42 the program has no race and all ranks still match, and the diagnostic is
//
//     rank 0 #41 compute sum_squares wte.weight takes src0 = gradient bucket 0 of dp[28928:32000], which is an
//     unreduced partial sum over dp: squares of partial sums are not those of the sum; is a collective missing?
//
// Cost: linear in the pieces of the operands, and a search of the layout for each gradient; on an axis of stages, for
// each parameter too.

#include "verify/placement/placement_rules.h"

namespace tessera::host {
namespace {

/// The loss, or the count of correct predictions.
bool is_loss(const Binding& binding) {
  return binding.slot == TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_LOSS) ||
         binding.slot == TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_CORRECT);
}

const char* const kNotReduced = "the action needs the sum; is a collective missing?";

}  // namespace

int PlacementRules::parameter_at(const Binding& binding) const {
  return program_.model->segments[action_->segment].parameters[TSR_SLOT_INDEX(binding.slot)];
}

void PlacementRules::compute() {
  switch (splits_) {
    case TSR_SPLITS_LAYERS:
      return compute_on_layer_axis();
    case TSR_SPLITS_TENSORS:
      return compute_on_tensor_axis();
    default:
      return compute_on_batch_axis();
  }
}

// Every rank has its own tokens: values vary by rank, gradients and loss are partial.
void PlacementRules::compute_on_batch_axis() {
  const uint32_t any_but_partial =
      bit(PlacementKind::replicated) | bit(PlacementKind::varying) | bit(PlacementKind::shard);
  const uint32_t whole = bit(PlacementKind::replicated) | bit(PlacementKind::varying);
  for (const Binding& binding : action_->bindings) {
    if (is_output(binding)) continue;
    if (has_role(binding, TSR_ROLE_PARAMETER)) {
      expect(binding, whole, "the action needs the whole parameter; is a collective missing?");
      expect_unscaled(binding, "a segment computes with weights as they are");
    } else {
      expect(binding, any_but_partial, kNotReduced);
    }
  }
  for (const Binding& binding : action_->bindings) {
    if (!is_output(binding)) continue;
    PlacementKind kind = PlacementKind::varying;
    if (is_loss(binding)) kind = PlacementKind::partial;
    if (has_role(binding, TSR_ROLE_GRADIENT)) {
      const bool diverges =
          layout_placement(program_, parameter_at(binding), axis_, TSR_HOME_VALUE) == PlacementKind::varying;
      kind = diverges ? PlacementKind::varying : PlacementKind::partial;
    }
    put(binding, {kind});
  }
}

// The ranks run different segments on the same tokens. Values that pass from one to the next count as replicated; what
// several stages add to (a tied parameter's gradient, the loss) is partial.
void PlacementRules::compute_on_layer_axis() {
  for (const Binding& binding : action_->bindings) {
    if (is_output(binding)) continue;
    const bool is_parameter = has_role(binding, TSR_ROLE_PARAMETER);
    const PlacementKind kind = is_parameter ? layout_placement(program_, parameter_at(binding), axis_, TSR_HOME_VALUE)
                                            : PlacementKind::replicated;
    expect(binding, bit(kind), is_parameter ? "the layout places it differently" : kNotReduced);
  }
  for (const Binding& binding : action_->bindings) {
    if (!is_output(binding)) continue;
    PlacementKind kind = PlacementKind::replicated;
    if (is_loss(binding)) kind = PlacementKind::partial;
    if (has_role(binding, TSR_ROLE_GRADIENT)) {
      const PlacementKind home = layout_placement(program_, parameter_at(binding), axis_, TSR_HOME_GRADIENT);
      kind = home == PlacementKind::replicated ? PlacementKind::partial : home;
    }
    put(binding, {kind});
  }
}

}  // namespace tessera::host
