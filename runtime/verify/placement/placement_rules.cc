// Abstract interpretation of a program for one axis: each action is applied to placements instead of numbers. On dp,
//
//     38    backward h.0.ln_1 mb=0  ...  w %61+13568:32 g:ln_1.weight  ...    writes a partial sum
//     42    all_reduce group=dp reduce=sum  a %61 dst                         partial -> replicated
//     45    sum_squares home=h.0.ln_1.weight  r %61+13568:32 src  ...         refuses a partial sum
//
// The rules are in five files: compute_rules.cc (axes that split the batch or the layers), tensor_rules.cc,
// collective_rules.cc, step_rules.cc (elementwise, norm, optimizer), call_rules.cc.
//
// Invariant: a range that caused a diagnostic becomes unknown, which fits everything, so a fault is reported once and
// not again for each action after it. Cost: a rule reads and writes each operand a few times (placement.cc).

#include "verify/placement/placement_rules.h"

namespace tessera::host {

PlacementRules::PlacementRules(const Program& program, int axis, PlacementMap& placements, DiagnosticList& diagnostics)
    : program_(program),
      axis_(axis),
      axis_name_(program.mesh->axes()[axis].name),
      splits_(program.mesh->axes()[axis].splits),
      staged_(program),
      placements_(placements),
      diagnostics_(diagnostics) {}

void PlacementRules::apply(size_t index) {
  index_ = index;
  action_ = &program_.actions[index];
  if (is_compute(action_->kind)) return compute();
  if (is_collective(action_->kind)) return collective();
  if (is_elementwise(action_->kind)) return elementwise();
  switch (action_->kind) {
    case TSR_ACTION_SUM_SQUARES:
      return sum_squares();
    case TSR_ACTION_CLIP:
      return clip();
    case TSR_ACTION_OPTIMIZER:
      return optimizer();
    default:
      return call();
  }
}

void PlacementRules::report(const std::string& what) {
  diagnostics_.add(action_text(program_, index_) + " " + what);
}

std::string PlacementRules::text(const Binding& binding, const Placement& placement) const {
  return slot_text(program_, *action_, binding.slot) + " = " + range_text(program_, binding) + ", which is " +
         placement_text(placement, axis_name_);
}

bool PlacementRules::expect(const Binding& binding, uint32_t allowed, std::string_view why) {
  for (const PlacementPart& part : placements_.read(binding)) {
    if (part.placement.is_neutral() || (allowed & bit(part.placement.kind))) continue;
    const bool is_code = part.placement.is_code();
    report("takes " + text(binding, part.placement) + ": " +
           (is_code ? "only a call of " + program_.strategies.at(part.placement.code.strategy).name +
                          " with reduce and group makes the sum of it"
                    : std::string(why)));
    placements_.write(binding, Placement{});
    return false;
  }
  return true;
}

void PlacementRules::expect_unscaled(const Binding& binding, std::string_view why) {
  for (const PlacementPart& part : placements_.read(binding)) {
    if (part.placement.is_neutral() || !part.placement.is_scaled()) continue;
    report("takes " + text(binding, part.placement) + ": " + std::string(why));
    return placements_.write(binding, Placement{});
  }
}

void PlacementRules::put(const Binding& binding, const Placement& placement) {
  put(binding, PlacementParts{{0, binding.num_elements, placement}});
}

void PlacementRules::put(const Binding& binding, const PlacementParts& parts) {
  if (binding.mode != TSR_MODE_ADD) return placements_.write(binding, parts);
  PlacementParts sums;
  for (const PlacementPair& pair : zip(placements_.read(binding), parts)) {
    const auto sum = placement_of_sum(pair.first, pair.second);
    if (!sum) {
      report("adds what is " + placement_text(pair.second, axis_name_) + " to " + text(binding, pair.first) +
             ": such a sum has no meaning");
      return placements_.write(binding, Placement{});
    }
    sums.push_back({pair.offset, pair.num_elements, *sum});
  }
  placements_.write(binding, sums);
}

}  // namespace tessera::host
