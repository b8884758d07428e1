// What calls do to placements. The arithmetic of a strategy is unknown; what an action says of it is not. Compression
// of gradients, as in QSGD or 1-bit Adam:
//
//     call code=1                          r gradient, a residual, w codes    partial  -> encoded
//     all_gather                           r codes, w all_codes               encoded  -> gathered
//     call code=1 reduce=sum group=dp      r all_codes, w gradient            gathered -> replicated
//
// The last one may overwrite the gradient: a transient range is otherwise written once. With all_to_all in the place of
// the gather a rank has the codes of its slice, and the sum is a shard. A call with reduce and no group makes addends
// of addends (PowerSGD's factors, rounded values), which a collective sums.
//
// Calls that take neither addends nor codes leave what their operands are. One that takes nothing that is known, or
// what this rank has received or kept beside what all have, makes what differs by rank: nothing shows that it does not.
// On other axes than the strategy's, operands must be complete.
// Cost: linear in the pieces of the operands.

#include <map>
#include <set>

#include "verify/placement/placement_rules.h"

namespace tessera::host {
namespace {

/// The first part of one of these kinds, by order of the kinds; unknown if there is none.
Placement strongest(const PlacementParts& parts, std::initializer_list<PlacementKind> kinds) {
  for (const PlacementKind kind : kinds)
    for (const PlacementPart& part : parts)
      if (part.placement.kind == kind) return part.placement;
  return {};
}

bool has(const PlacementParts& parts, PlacementKind kind) {
  return std::ranges::any_of(parts, [&](const PlacementPart& part) { return part.placement.kind == kind; });
}

/// What only this rank may have.
bool is_of_this_rank(const PlacementParts& parts) {
  return has(parts, PlacementKind::received) || has(parts, PlacementKind::local);
}

}  // namespace

void PlacementRules::call() {
  if (program_.strategies[static_cast<size_t>(action_->strategy)].axis != axis_) return call_of_another_axis();
  action_->group >= 0 ? decode() : encode();
}

PlacementParts PlacementRules::operands_of_call() const {
  PlacementParts operands;
  for (const Binding& binding : action_->bindings) {
    if (binding.mode == TSR_MODE_WRITE) continue;
    const PlacementParts parts = placements_.read(binding);
    operands.insert(operands.end(), parts.begin(), parts.end());
  }
  return operands;
}

void PlacementRules::put_results(const Placement& placement) {
  for (const Binding& binding : action_->bindings)
    if (is_output(binding)) placements_.write(binding, placement);
}

void PlacementRules::call_of_another_axis() {
  for (const Binding& binding : action_->bindings)
    if (binding.mode != TSR_MODE_WRITE)
      expect(
          binding, kComplete,
          "a call on another axis needs the sum; inner axes are summed first, so give its strategy the outermost one");
  const PlacementParts operands = operands_of_call();
  Placement result = strongest(operands, {PlacementKind::varying, PlacementKind::shard, PlacementKind::replicated});
  // What comes from elsewhere over the call's own axis comes to all ranks of this one alike.
  if (result.kind == PlacementKind::replicated && has(operands, PlacementKind::local))
    result.kind = PlacementKind::varying;
  put_results(result);
}

// A code is read by the strategy that made it; a call makes one code of others.
void PlacementRules::encode() {
  for (const Binding& binding : action_->bindings)
    for (const PlacementPart& part : placements_.read(binding))
      if (binding.mode != TSR_MODE_WRITE && part.placement.is_code() &&
          part.placement.code.strategy != action_->strategy) {
        expect(binding, ~kCodes, "");
        break;
      }
  const PlacementParts operands = operands_of_call();
  Placement result = strongest(operands, {PlacementKind::partial, PlacementKind::encoded, PlacementKind::exchanged,
                                          PlacementKind::gathered, PlacementKind::extremum, PlacementKind::varying,
                                          PlacementKind::shard, PlacementKind::replicated, PlacementKind::bound});
  const bool is_addend = result.kind == PlacementKind::partial || result.kind == PlacementKind::encoded;
  if (result.is_neutral() || (result.kind == PlacementKind::replicated && is_of_this_rank(operands)))
    result.kind = PlacementKind::varying;
  result.code.position = -1;
  if (is_addend) {
    result.kind = action_->reduce ? PlacementKind::partial : PlacementKind::encoded;
    result.code = action_->reduce ? Code{} : Code{action_->strategy, action_->code, -1};
  }
  put_results(result);
}

/// Checks an operand; a code that all ranks of the group have made sets `result`.
bool PlacementRules::take_for_decoding(const Binding& binding, PlacementKind& result) {
  const Code wanted{action_->strategy, action_->code, action_->group};
  for (const PlacementPart& part : placements_.read(binding)) {
    const Placement& given = part.placement;
    const bool is_neutral = given.is_neutral() && !is_of_this_rank({part});
    if (is_neutral || given.kind == PlacementKind::replicated) continue;
    const auto refuse = [&](const std::string& why) {
      report("takes " + text(binding, given) + ": " + why);
      placements_.write(binding, Placement{});
      return false;
    };
    if (!given.is_code())
      return refuse("a call that makes the sum takes codes of all ranks, and what is the same on them");
    if (given.code.strategy != wanted.strategy)
      return refuse("they are codes of " + program_.strategies.at(given.code.strategy).name);
    if (given.kind == PlacementKind::encoded) return refuse("it was not gathered from the other ranks");
    if (given.code.group != wanted.group)
      return refuse("it came from " + group_text(program_, program_.groups[given.code.group]) +
                    ", and the call is for " + group_text(program_, program_.groups[wanted.group]));
    if (given.kind == PlacementKind::bound) continue;
    if (given.code.number != wanted.number)
      return refuse("they are code " + std::to_string(given.code.number) + ", and the call takes code " +
                    std::to_string(wanted.number));
    const PlacementKind sum = given.kind == PlacementKind::exchanged ? PlacementKind::shard : PlacementKind::replicated;
    if (result != PlacementKind::unknown && result != sum)
      return refuse("other operands are codes of " + std::string(sum == PlacementKind::shard ? "the whole" : "a part"));
    result = sum;
  }
  return true;
}

/// Of each gather that it reads: what it has of codes and of their scales are two.
bool PlacementRules::takes_codes_of_all() {
  std::map<uint64_t, std::set<int>> positions;  // by buffer
  std::map<uint64_t, int> num_positions;
  for (const Binding& binding : action_->bindings) {
    if (binding.mode == TSR_MODE_WRITE) continue;
    for (const PlacementPart& part : placements_.read(binding)) {
      const Code& code = part.placement.code;
      if (!part.placement.is_code() || code.position < 0) continue;
      positions[binding.buffer].insert(code.position);
      num_positions[binding.buffer] = code.num_positions;
    }
  }
  for (const auto& [buffer, known] : positions)
    if (static_cast<int>(known.size()) < num_positions[buffer]) {
      report("takes the codes of " + std::to_string(known.size()) + " of " + std::to_string(num_positions[buffer]) +
             " ranks in " + buffer_text(program_.buffer(buffer)) + "; a call that makes the sum takes those of all");
      return false;
    }
  return true;
}

void PlacementRules::decode() {
  PlacementKind result = PlacementKind::unknown;
  bool is_right = true;
  const double factor = strongest(operands_of_call(), {PlacementKind::exchanged, PlacementKind::gathered}).factor;
  for (const Binding& binding : action_->bindings)
    if (binding.mode != TSR_MODE_WRITE) is_right &= take_for_decoding(binding, result);
  is_right = is_right && takes_codes_of_all();
  if (is_right && result == PlacementKind::unknown)
    report("has reduce and group, and takes no code that was gathered from " +
           group_text(program_, program_.groups[action_->group]));
  put_results({is_right ? result : PlacementKind::unknown, factor});
}

}  // namespace tessera::host
