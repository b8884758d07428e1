// What collectives do to placements. On the analyzed axis:
//
//     all_reduce sum        partial            -> replicated
//     reduce_scatter sum    partial            -> shard
//     reduce sum            partial            -> shard           (the root has it)
//     the same, avg         also replicated and varying; partial is scaled by 1/n
//     the same, min or max  replicated, varying, extremum: the maximum of partial sums is not that of the sum
//     all_gather            shard, varying     -> replicated
//     broadcast             not partial, ext.  -> replicated
//     all_to_all            not partial, ext.  -> shard from replicated, else unchanged
//     send, recv            not partial, ext.  -> as compute leaves values, else received
//
// An encoded addend becomes gathered by an all_gather, exchanged by an all_to_all, a bound by an all_reduce by min or
// max, and may be sent; other collectives take no codes.
//
// On another axis elements are moved or added independently of this one. Sums are linear, so the sum of partials is
// partial and that of shards is a shard: placements are carried along.

#include <algorithm>

#include "verify/placement/placement_rules.h"

namespace tessera::host {

namespace {

constexpr std::string_view kTakenForWhole = "the others would take what is of a part for the whole";
constexpr std::string_view kTakenUnscaled = "the others would take it for what it was before it was scaled";

}  // namespace

void PlacementRules::collective() {
  if (action_->kind == TSR_ACTION_BARRIER) return;
  for (const Binding& binding : action_->bindings)
    if (TSR_SLOT_ROLE(binding.slot) == TSR_ROLE_WORKSPACE) placements_.write(binding, Placement{});
  if (is_message(action_->kind)) return messages();
  const CollectiveOperands form(program_, *action_);
  const int group_axis = program_.groups[action_->group].axis;
  if (group_axis != axis_ && group_axis != TSR_WORLD_AXIS) return carry(form);
  if (leaves_out_ranks(form)) {
    report("is for " + group_text(program_, program_.groups[action_->group]) + " only, but the other ranks of " +
           axis_name_ + " hold a part of its operand too");
    if (form.destination) placements_.write(*form.destination, Placement{});
    return;
  }
  if (carry_code_on_axis(form)) return;
  switch (action_->kind) {
    case TSR_ACTION_ALL_GATHER:
      return gather_on_axis(form);
    case TSR_ACTION_BROADCAST:
      return broadcast_on_axis(form);
    case TSR_ACTION_ALL_TO_ALL:
      return transpose_on_axis(form);
    default:
      return reduce_on_axis(form);
  }
}

/// What the range is a copy of, through staging and through the memory in which an offload policy kept it: the range of
/// a home, if it is of one.
Binding PlacementRules::copied_of(Binding range) const {
  range = staged_.of(range);
  const auto is_of_home = [&] {
    return std::ranges::any_of(program_.homes, [&](const Home& home) {
      return std::ranges::any_of(home.roles, [&](const auto& role) { return role.second.buffer == range.buffer; });
    });
  };
  const auto is_kept_elsewhere = [&] {
    const Buffer& buffer = program_.buffer(range.buffer);
    return buffer.kind == TSR_BUFFER_FETCHED || buffer.memory != TSR_MEMORY_DEVICE;
  };
  for (auto i = static_cast<size_t>(action_ - program_.actions.data());
       i-- > 0 && is_kept_elsewhere() && !is_of_home();) {
    const Action& copy = program_.actions[i];
    const Binding* destination = copy.kind == TSR_ACTION_COPY ? copy.find(kDestination) : nullptr;
    if (!destination || destination->buffer != range.buffer || destination->offset > range.offset ||
        destination->offset + destination->num_elements < range.offset + range.num_elements)
      continue;
    const Binding& source = *copy.find(kSource);
    range.buffer = source.buffer;
    range.offset = range.offset - destination->offset + source.offset;
  }
  return range;
}

/// True if the group is a proper subset of the axis, and the operand does not belong to a home that the layout places
/// on exactly that subset.
bool PlacementRules::leaves_out_ranks(const CollectiveOperands& form) const {
  const Group& group = program_.groups[action_->group];
  if (group.axis == TSR_WORLD_AXIS || form.num_ranks == program_.mesh->axes()[axis_].num_ranks) return false;
  const Binding range = copied_of(form.given() ? *form.given() : *form.destination);
  if (range.num_elements == 0) return false;
  const auto is_on_group = [&](int parameter, uint32_t role) {
    const LayoutEntry* split = entry_on(program_, parameter, axis_, role);
    return split && split->kind == TSR_LAYOUT_REPLICATED && split->coordinates == group.coordinates;
  };
  bool is_of_homes = false;
  for (const Home& home : program_.homes)
    for (const auto& [role, place] : home.roles) {
      if (place.buffer != range.buffer || place.offset >= range.offset + range.num_elements ||
          range.offset >= place.offset + place.num_elements)
        continue;
      is_of_homes = true;  // all pieces of a home are on the same ranks; an empty slice counts too
      if (!is_on_group(program_.model->units[home.unit].parameters.front(), role)) return true;
    }
  return !is_of_homes;
}

/// The placements after a reduction over this axis: partial becomes `result`. Averages, minima and maxima also take
/// values that are not partial.
PlacementParts PlacementRules::reduced(const CollectiveOperands& form, PlacementKind result) {
  const Binding& given = *form.given();
  const bool over_world = program_.groups[action_->group].axis == TSR_WORLD_AXIS;
  const double n = over_world ? program_.mesh->axes()[axis_].num_ranks : form.num_ranks;
  const bool sums = action_->reduce == TSR_REDUCE_SUM, averages = action_->reduce == TSR_REDUCE_AVG;
  uint32_t allowed = bit(PlacementKind::partial);
  std::string why = "its sum over the axis has no meaning";
  if (!sums) {
    allowed = bit(PlacementKind::replicated) | bit(averages ? PlacementKind::partial : PlacementKind::extremum) |
              bit(PlacementKind::varying);
    why = averages ? "its average over the axis has no meaning" : "its minimum or maximum over the axis has no meaning";
  }
  expect(given, allowed, why);
  if (sums) refuse_received(given);
  PlacementParts parts = placements_.read(given);
  for (PlacementPart& part : parts) {
    if (part.placement.is_neutral()) continue;
    const bool has_weights = averages && part.placement.kind == PlacementKind::varying;  // of an average
    const double factor = averages && part.placement.kind == PlacementKind::partial ? 1 / n : 1;
    part.placement = {result, has_weights ? 1 : part.placement.factor * factor};
  }
  return parts;
}

/// Each rank of the axis would count what one of them has sent.
void PlacementRules::refuse_received(const Binding& given) {
  for (const PlacementPart& part : placements_.read(given)) {
    if (part.placement.kind != PlacementKind::received) continue;
    report("takes " + text(given, part.placement) + ": each rank would add it, and addends are not sent");
    return placements_.write(given, Placement{});
  }
}

/// The other slices go to ranks whose programs may not be looked at.
void PlacementRules::expect_one_factor(const Binding& given) {
  std::optional<double> factor;
  for (const PlacementPart& part : placements_.read(given)) {
    if (part.placement.is_neutral()) continue;
    const Placement ratio{PlacementKind::unknown, part.placement.factor / factor.value_or(part.placement.factor)};
    if (ratio.is_scaled())
      return report("takes " + range_text(program_, given) + ", of which parts are scaled by " +
                    std::to_string(*factor) + " and by " + std::to_string(part.placement.factor));
    factor = part.placement.factor;
  }
}

void PlacementRules::reduce_on_axis(const CollectiveOperands& form) {
  const PlacementKind result =
      action_->kind == TSR_ACTION_ALL_REDUCE ? PlacementKind::replicated : PlacementKind::shard;
  if (action_->kind == TSR_ACTION_REDUCE_SCATTER) expect_one_factor(*form.given());
  const PlacementParts parts = reduced(form, result);
  if (!form.destination) return;
  if (action_->kind != TSR_ACTION_REDUCE_SCATTER) return placements_.write(*form.destination, parts);
  const auto offsets = slice_offsets(*action_, form.given()->num_elements, form.num_ranks);
  Binding own = *form.destination;
  if (form.in_place) {  // the other slices are left as scratch
    placements_.write(own, Placement{});
    own.offset += offsets[form.position];
    own.num_elements = offsets[form.position + 1] - offsets[form.position];
  }
  placements_.write(own, slice(parts, offsets[form.position], offsets[form.position + 1]));
}

/// What a gather takes from this rank: its slice.
Binding PlacementRules::gathered_slice(const CollectiveOperands& form) const {
  Binding own = *form.given();
  if (form.in_place) {
    const auto offsets = slice_offsets(*action_, own.num_elements, form.num_ranks);
    own.offset += offsets[form.position];
    own.num_elements = offsets[form.position + 1] - offsets[form.position];
  }
  return own;
}

/// Collectives of codes; false when the operand has none.
bool PlacementRules::carry_code_on_axis(const CollectiveOperands& form) {
  const uint32_t kind = action_->kind;
  if (!form.given()) return false;
  const Binding given = kind == TSR_ACTION_ALL_GATHER ? gathered_slice(form) : *form.given();
  const PlacementParts parts = placements_.read(given);
  if (std::ranges::none_of(parts, [](const PlacementPart& part) { return part.placement.is_code(); })) return false;
  Placement result = common_placement(parts);
  const bool is_own = result.kind == PlacementKind::encoded;
  const bool bounds = action_->reduce == TSR_REDUCE_MIN || action_->reduce == TSR_REDUCE_MAX;
  result.code.group = action_->group;
  if (result.is_neutral())
    report("takes " + range_text(program_, given) +
           ", of which parts are different codes; give each a range of its own");
  else if (kind == TSR_ACTION_ALL_GATHER && is_own)
    result.kind = PlacementKind::gathered;
  else if (kind == TSR_ACTION_ALL_TO_ALL && is_own)
    result.kind = PlacementKind::exchanged;
  else if (kind == TSR_ACTION_ALL_REDUCE && bounds && (is_own || result.kind == PlacementKind::bound))
    result.kind = PlacementKind::bound;
  else if (!expect(given, ~kCodes, ""))
    result = {};
  if (form.destination) write_codes(form, result);
  return true;
}

/// Codes that came together, each with its rank; uneven exchanges have other counts in and out.
void PlacementRules::write_codes(const CollectiveOperands& form, Placement codes) {
  const Binding& all = *form.destination;
  const bool are_by_rank =
      codes.kind == PlacementKind::gathered || (codes.kind == PlacementKind::exchanged && action_->counts.empty());
  if (!are_by_rank) return placements_.write(all, codes);
  const auto offsets = slice_offsets(*action_, all.num_elements, form.num_ranks);
  const auto num_elements = [&](int i) {
    return offsets[static_cast<size_t>(i) + 1] - offsets[static_cast<size_t>(i)];
  };
  codes.code.num_positions = 0;
  for (int i = 0; i < form.num_ranks; ++i)
    if (num_elements(i) > 0) ++codes.code.num_positions;
  for (int i = 0; i < form.num_ranks; ++i) {
    Binding slice = all;
    slice.offset += offsets[static_cast<size_t>(i)];
    slice.num_elements = num_elements(i);
    codes.code.position = i;
    if (slice.num_elements > 0) placements_.write(slice, codes);
  }
}

void PlacementRules::gather_on_axis(const CollectiveOperands& form) {
  const Binding own = gathered_slice(form);
  // In place, gathering the slices of a replicated buffer changes nothing.
  const uint32_t whole = form.in_place ? bit(PlacementKind::replicated) : 0;
  expect(own, bit(PlacementKind::shard) | bit(PlacementKind::varying) | whole,
         "the ranks' slices do not make up the buffer");
  expect_one_factor(own);
  const Placement common = common_placement(placements_.read(own));
  placements_.write(*form.destination, {PlacementKind::replicated, common.factor});
}

void PlacementRules::broadcast_on_axis(const CollectiveOperands& form) {
  const bool is_root = form.position == action_->peer;
  const Binding* given = form.given();
  if (given) {
    const uint32_t any_but_partial =
        bit(PlacementKind::replicated) | bit(PlacementKind::shard) | bit(PlacementKind::varying);
    expect(*given, any_but_partial,
           is_root ? "it must be reduced before it is broadcast"
                   : "the broadcast overwrites a partial sum that was never reduced");
  }
  PlacementParts parts = given ? placements_.read(*given) : PlacementParts{{0, form.destination->num_elements, {}}};
  for (PlacementPart& part : parts)
    if (!given || !part.placement.is_neutral()) part.placement.kind = PlacementKind::replicated;
  placements_.write(*form.destination, parts);
}

void PlacementRules::transpose_on_axis(const CollectiveOperands& form) {
  expect(*form.source, bit(PlacementKind::shard) | bit(PlacementKind::varying) | bit(PlacementKind::replicated),
         "slices of partial sums are not slices of the sum; reduce first");
  Placement placement = common_placement(placements_.read(*form.source));
  if (placement.kind == PlacementKind::replicated) placement.kind = PlacementKind::shard;
  placements_.write(*form.destination, placement);
}

// Collectives of another axis.
void PlacementRules::carry(const CollectiveOperands& form) {
  if (action_->reduce == TSR_REDUCE_MIN || action_->reduce == TSR_REDUCE_MAX)
    expect(*form.given(), ~bit(PlacementKind::partial),
           "the minimum or maximum of partial sums is not that of the sum");
  else if (action_->reduce)
    expect(*form.given(), ~(bit(PlacementKind::extremum) | kCodes), "the sum of maxima of parts is not that of maxima");
  else if (action_->kind == TSR_ACTION_BROADCAST && form.position == action_->peer) {  // what others get is unknown
    expect(*form.given(), ~kOfParts, kTakenForWhole);
    expect_unscaled(*form.given(), kTakenUnscaled);
  }
  if (action_->kind == TSR_ACTION_ALL_GATHER) return carry_gather(form);
  if (form.in_place || !form.destination) return;
  if (!form.source) return placements_.write(*form.destination, {PlacementKind::received});
  const PlacementParts parts = placements_.read(*form.source);
  if (action_->kind == TSR_ACTION_ALL_TO_ALL) return carry_transpose(form);
  if (action_->kind != TSR_ACTION_REDUCE_SCATTER) return placements_.write(*form.destination, parts);
  const auto offsets = slice_offsets(*action_, form.source->num_elements, form.num_ranks);
  placements_.write(*form.destination, slice(parts, offsets[form.position], offsets[form.position + 1]));
}

// Slices of all parts of the operand come from the other ranks, in an order that is not looked at here.
void PlacementRules::carry_transpose(const CollectiveOperands& form) {
  expect_one_factor(*form.source);
  if (common_placement(placements_.read(*form.source)).kind == PlacementKind::received) {
    expect(*form.source, ~kOfParts, "what is of a part and what is whole would change places");
    expect_unscaled(*form.source, kTakenUnscaled);
  }
  placements_.write(*form.destination, common_placement(placements_.read(*form.source)));
}

// Only the placement of the own slice is known. On an axis that splits the batch the other slices have the same one. On
// other axes they may hold other parameters with other placements; compute actions that read them ask the layout. Of
// stages, they may be addends of a tied parameter: which, verify_model knows.
void PlacementRules::carry_gather(const CollectiveOperands& form) {
  const auto offsets = slice_offsets(*action_, form.destination->num_elements, form.num_ranks);
  Binding own = *form.destination;
  own.offset += offsets[form.position];
  own.num_elements = offsets[form.position + 1] - offsets[form.position];
  // In place the buffer is the same on all ranks: what is at their positions they may give.
  const Binding given = form.in_place ? *form.destination : *form.source;
  if (splits_ == TSR_SPLITS_TENSORS) expect(given, ~kOfParts, kTakenForWhole);
  if (splits_ != TSR_SPLITS_BATCH) expect_unscaled(given, kTakenUnscaled);
  const PlacementParts parts = placements_.read(form.in_place ? own : *form.source);
  Placement others{splits_ == TSR_SPLITS_LAYERS ? PlacementKind::unknown : PlacementKind::received};
  if (splits_ == TSR_SPLITS_BATCH) others = common_placement(parts);
  placements_.write(*form.destination, others);
  placements_.write(own, parts);
}

// The sender's program is not available here. Values and their gradients are placed as compute leaves them on any rank.
void PlacementRules::messages() {
  const bool is_batch = splits_ == TSR_SPLITS_BATCH;
  for (const Message& message : messages_of(*action_)) {
    const uint32_t kind = program_.buffer(staged_.of(*message.binding).buffer).kind;
    const bool is_value = kind == TSR_BUFFER_ACTIVATION || kind == TSR_BUFFER_SAVED;
    if (!message.is_receive) {
      expect(*message.binding, ~kOfParts, kTakenForWhole);
      expect_unscaled(*message.binding, kTakenUnscaled);
      continue;
    }
    const PlacementKind value = is_batch ? PlacementKind::varying : PlacementKind::replicated;
    placements_.write(*message.binding, {is_value && splits_ != TSR_SPLITS_TENSORS ? value : PlacementKind::received});
  }
}

}  // namespace tessera::host
