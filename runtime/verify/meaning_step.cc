// What elementwise actions, norm, clip, optimizer and calls do to meanings. Here the mistakes of strategies surface, as
// this is where gradients are used: `sum_squares` and `optimizer` take no addends and nothing that was scaled, and a
// gradient must be split as the parameter is. An exception is ZeRO-1: a replicated value whose moments are split
// becomes split, since each rank has updated its slice, and the gather at the end makes it replicated again.

#include <algorithm>

#include "verify/meaning_rules.h"

namespace tessera::host {
namespace {

constexpr uint32_t kSource = TSR_SLOT(TSR_ROLE_SOURCE, 0);
constexpr uint32_t kDestination = TSR_SLOT(TSR_ROLE_DESTINATION, 0);
constexpr uint32_t kAccumulator = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_ACCUMULATOR);
constexpr uint32_t kClip = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_CLIP);
constexpr uint32_t kStep = TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_STEP);

bool any_of(const MeaningParts& parts, State state) {
  return std::ranges::any_of(parts, [&](const MeaningPart& part) { return part.meaning.state == state; });
}

/// Whether a parameter may be updated with a gradient: both replicated, both split alike, or the parameter the rank's
/// own.
bool fits(State value, State gradient) {
  return value == gradient || value == State::different;
}

}  // namespace

void MeaningRules::elementwise() {
  if (action_->kind == TSR_ACTION_ZERO) {
    for (const Binding& binding : action_->bindings)
      if (TSR_SLOT_ROLE(binding.slot) == TSR_ROLE_DESTINATION) meanings_.write(binding, {State::zero});
    return;
  }
  const Binding& destination = *action_->find(kDestination);
  if (action_->kind == TSR_ACTION_SCALE) {
    MeaningParts parts = meanings_.read(destination);
    for (MeaningPart& part : parts)
      if (!part.meaning.is_neutral()) part.meaning.factor *= action_->scale;
    return meanings_.write(destination, parts);
  }
  put(destination, meanings_.read(*action_->find(kSource)));
}

// A range that several ranks hold is counted by one of them, so squares are addends over every axis, divergent
// parameters excepted. Element 0, the count of values that are not finite, is always an addend: all ranks skip a step
// together.
void MeaningRules::sum_squares() {
  const Binding& source = *action_->find(kSource);
  expect(source, ~bit(State::partial), "squares of addends are not the square of their sum; is a collective missing?");
  expect_unscaled(source);
  const bool diverges = any_of(meanings_.read(source), State::different);
  const Binding& accumulator = *action_->find(kAccumulator);
  const State finite = diverges ? State::different : State::partial;
  put(accumulator, MeaningParts{{0, 1, {State::partial}}, {1, accumulator.num_elements - 1, {finite}}});
}

void MeaningRules::clip() {
  const Binding& accumulator = *action_->find(kAccumulator);
  expect(accumulator, ~bit(State::partial), "the norm would be that of a part; is the sum over the world missing?");
  const MeaningParts squares = meanings_.read(accumulator);
  const auto result = [](const MeaningParts& parts) {
    return Meaning{any_of(parts, State::different) ? State::different : State::replicated};
  };
  meanings_.write(*action_->find(kClip), result(squares));
  meanings_.write(*action_->find(kStep), result(slice(squares, 0, 1)));  // counted where all gradients are finite
}

/// What a value is after its update with a gradient and moments of these meanings.
State MeaningRules::updated_state(const Binding& value, const MeaningPair& pair, State moments, bool clips_alike) {
  const State before = pair.first.state;
  if (pair.first.is_neutral() || pair.second.is_neutral()) return before;
  // A part of a replicated parameter, updated by the rank that has its moments (ZeRO-1).
  const bool is_sum = pair.second.state == State::split || pair.second.state == State::replicated;
  if (before == State::replicated && moments == State::split && is_sum) return State::split;
  if (!fits(before, pair.second.state)) {
    report("updates " + text(value, pair.first) + ", with a gradient that is " + meaning_text(pair.second, axis_name_));
    return State::unknown;
  }
  if (!clips_alike && before == State::replicated) {
    report("updates " + text(value, pair.first) + ", but clips by a norm that is different on each rank");
    return State::unknown;
  }
  return before;
}

void MeaningRules::optimizer() {
  const Binding& value = *action_->find(kDestination);
  const Binding& gradient = *action_->find(kSource);
  expect(gradient, ~bit(State::partial), "the optimizer needs the sum; is a collective missing?");
  expect_unscaled(gradient);
  const bool clips_alike = !any_of(meanings_.read(*action_->find(kClip)), State::different);
  const Binding* moments = action_->find(TSR_SLOT(TSR_ROLE_STATE, 0));
  // Without moments: those of the value itself.
  const MeaningParts states = meanings_.read(moments ? *moments : value);
  MeaningParts updated;
  for (const MeaningPair& pair : zip(meanings_.read(value), meanings_.read(gradient)))
    for (const MeaningPart& state : slice(states, pair.offset, pair.offset + pair.num_elements)) {
      const State result = updated_state(value, pair, state.meaning.state, clips_alike);
      updated.push_back({pair.offset + state.offset, state.num_elements, {result, pair.first.factor}});
    }
  meanings_.write(value, updated);
}

// The arithmetic of a strategy is unknown. On its own axis it may take addends (compression before the sum) and then
// leaves addends; on other axes its results have the meaning of its operands.
void MeaningRules::call() {
  const bool is_own = action_->strategy_axis == axis_;
  MeaningParts operands;
  for (const Binding& binding : action_->bindings) {
    if (binding.mode == TSR_MODE_WRITE) continue;
    if (!is_own) expect(binding, ~bit(State::partial), "a call on another axis needs the sum");
    const MeaningParts parts = meanings_.read(binding);
    operands.insert(operands.end(), parts.begin(), parts.end());
  }
  Meaning result;
  for (const State state : {State::replicated, State::split, State::different, State::partial})
    if (any_of(operands, state)) result.state = state;
  for (const Binding& binding : action_->bindings)
    if (binding.mode != TSR_MODE_READ) meanings_.write(binding, result);
}

}  // namespace tessera::host
