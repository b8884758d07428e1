// What elementwise actions, norm, clip and optimizer do to placements. Mistakes of strategies surface here, where
// gradients are used: `sum_squares` and `optimizer` take nothing partial and nothing scaled, and a gradient must be
// placed like its parameter. An exception is ZeRO-1: a replicated value whose moments are shards becomes a shard, since
// each rank has updated its slice, and the gather at the end makes it replicated again. In
// tests/golden/programs/two-blocks-fsdp-optimizer-only.txt:
//
//     51    sum_squares home=h.0  r %93 src  a %2+0:20 x:squares            %93 is a shard, the squares become partial
//     58    optimizer home=h.0 predicated  a %14+0:6656 dst  ...            %14[0:6656]: replicated -> shard
//     63    all_gather group=dp  a %14 dst                                  %14: replicated
//
// Cost: linear in the pieces of the operands; of an optimizer, those of value and gradient times those of the moments.

#include <algorithm>

#include "verify/placement/placement_rules.h"

namespace tessera::host {
namespace {

constexpr uint32_t kAccumulator = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_ACCUMULATOR);
constexpr uint32_t kClip = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_CLIP);
constexpr uint32_t kStep = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_STEP);
constexpr const char* kOnlyLossIsScaled = "only the loss is scaled, strategies must sum";

bool any_of(const PlacementParts& parts, PlacementKind kind) {
  return std::ranges::any_of(parts, [&](const PlacementPart& part) { return part.placement.kind == kind; });
}

/// Whether a parameter may be updated with a gradient: both replicated, both shards, or the parameter varying.
bool fits(PlacementKind value, PlacementKind gradient) {
  return value == gradient || value == PlacementKind::varying;
}

}  // namespace

void PlacementRules::elementwise() {
  if (action_->kind == TSR_ACTION_ZERO) {
    for (const Binding& binding : action_->bindings)
      if (TSR_SLOT_ROLE(binding.slot) == TSR_ROLE_DESTINATION) placements_.write(binding, {PlacementKind::zero});
    return;
  }
  const Binding& destination = *action_->find(kDestination);
  if (action_->kind != TSR_ACTION_COPY) {  // only a copy leaves a code what it is
    const Binding* source = action_->find(kSource);
    expect(source ? *source : destination, ~kCodes, "");
  }
  if (action_->kind == TSR_ACTION_SCALE) {
    PlacementParts parts = placements_.read(destination);
    for (PlacementPart& part : parts)
      if (!part.placement.is_neutral()) part.placement.factor *= action_->scale;
    return placements_.write(destination, parts);
  }
  put(destination, placements_.read(*action_->find(kSource)));
}

// A range that several ranks hold is counted by one of them, so squares are partial on every axis, except those of
// divergent parameters, and of padding alone, as of a slice beyond a unit's end, which are zero. Element 0, the count
// of values that are not finite, is always partial: all ranks skip a step together.
void PlacementRules::sum_squares() {
  const Binding& source = *action_->find(kSource);
  expect(source, kComplete, "squares of partial sums are not those of the sum; is a collective missing?");
  expect_unscaled(source, kOnlyLossIsScaled);
  const PlacementParts parts = placements_.read(source);
  const bool are_zero =
      std::ranges::all_of(parts, [](const PlacementPart& part) { return part.placement.kind == PlacementKind::zero; });
  const Binding& accumulator = *action_->find(kAccumulator);
  const PlacementKind finite = any_of(parts, PlacementKind::varying) ? PlacementKind::varying
                               : are_zero                            ? PlacementKind::zero
                                                                     : PlacementKind::partial;
  put(accumulator, PlacementParts{{0, 1, {PlacementKind::partial}}, {1, accumulator.num_elements - 1, {finite}}});
}

void PlacementRules::clip() {
  const Binding& accumulator = *action_->find(kAccumulator);
  Binding run_words = accumulator;
  run_words.offset += TSR_ACCUMULATOR_LIMBS;
  run_words.num_elements -= TSR_ACCUMULATOR_LIMBS;
  if (any_of(slice(placements_.read(accumulator), 0, TSR_ACCUMULATOR_LIMBS), PlacementKind::partial))
    expect(accumulator, kComplete, "the norm would be that of one part; is the sum over the world missing?");
  else
    expect(run_words, kComplete, "the run words would be those of one rank; is the sum over the world missing?");
  const PlacementParts squares = placements_.read(accumulator);
  const auto result = [](const PlacementParts& parts) {
    return Placement{any_of(parts, PlacementKind::varying) ? PlacementKind::varying : PlacementKind::replicated};
  };
  placements_.write(*action_->find(kClip), result(squares));
  placements_.write(*action_->find(kStep), result(slice(squares, 0, 1)));  // counted where all gradients are finite
}

/// The placement of a value after its update with a gradient and moments of these placements.
PlacementKind PlacementRules::updated_placement(const Binding& value, const PlacementPair& pair, PlacementKind moments,
                                                bool clips_alike) {
  const PlacementKind before = pair.first.kind;
  if (pair.first.is_neutral() || pair.second.is_neutral()) return before;
  // A part of a replicated parameter, updated by the rank that has its moments (ZeRO-1).
  const bool is_sum = pair.second.kind == PlacementKind::shard || pair.second.kind == PlacementKind::replicated;
  if (before == PlacementKind::replicated && moments == PlacementKind::shard && is_sum) return PlacementKind::shard;
  if (!fits(before, pair.second.kind)) {
    report("updates " + text(value, pair.first) + ", with a gradient that is " +
           placement_text(pair.second, axis_name_));
    return PlacementKind::unknown;
  }
  if (!clips_alike && before == PlacementKind::replicated) {
    report("updates " + text(value, pair.first) + ", but clips by a norm that is different on each rank");
    return PlacementKind::unknown;
  }
  return before;
}

void PlacementRules::optimizer() {
  const Binding& value = *action_->find(kDestination);
  const Binding& gradient = *action_->find(kSource);
  expect(gradient, kComplete, "the optimizer needs the sum; is a collective missing?");
  expect_unscaled(gradient, kOnlyLossIsScaled);
  const bool clips_alike = !any_of(placements_.read(*action_->find(kClip)), PlacementKind::varying);
  const Binding* moments = action_->find(TSR_SLOT(TSR_ROLE_STATE, 0));
  // Without moments, the value's own.
  const PlacementParts states = placements_.read(moments ? *moments : value);
  PlacementParts updated;
  for (const PlacementPair& pair : zip(placements_.read(value), placements_.read(gradient)))
    for (const PlacementPart& state : slice(states, pair.offset, pair.offset + pair.num_elements)) {
      const PlacementKind result = updated_placement(value, pair, state.placement.kind, clips_alike);
      updated.push_back({pair.offset + state.offset, state.num_elements, {result, pair.first.factor}});
    }
  placements_.write(value, updated);
}

}  // namespace tessera::host
