// Checks what each kind of action binds, against a table of {kind, slot, modes, required}: a forward reads parameters,
// an optimizer has a value, a gradient, and so on. Sizes are checked where the model knows them. For example
//
//     rank 0 #5 compute forward h.0.attention mb=0 binds o0 (h.0.attended) with mode read; it must be write
//
// Two things are left to the device: slots of compute are optional in the table, since describe(op) decides which
// exist, and the device accepts or refuses dtypes. `call` may bind anything. Cost: bindings times rules.

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <span>

#include "verify/verify_rank.h"

namespace tessera::host {
namespace {

constexpr uint32_t kAny = 0xffff;
constexpr uint32_t kRead = 1u << TSR_MODE_READ, kWrite = 1u << TSR_MODE_WRITE, kAdd = 1u << TSR_MODE_ADD;

/// A slot of a kind of action: role, index (kAny: any number of them), and the modes it may be bound with.
struct SlotRule {
  uint32_t kind, role, index, modes;
  bool required = false;
};

constexpr SlotRule kRules[] = {
    {TSR_ACTION_FORWARD, TSR_ROLE_PARAMETER, kAny, kRead},
    {TSR_ACTION_FORWARD, TSR_ROLE_INPUT, kAny, kRead},
    {TSR_ACTION_FORWARD, TSR_ROLE_OUTPUT, kAny, kWrite},
    {TSR_ACTION_FORWARD, TSR_ROLE_SAVED, kAny, kWrite},
    {TSR_ACTION_BACKWARD, TSR_ROLE_PARAMETER, kAny, kRead},
    {TSR_ACTION_BACKWARD, TSR_ROLE_INPUT, kAny, kRead},
    {TSR_ACTION_BACKWARD, TSR_ROLE_OUTPUT, kAny, kRead},
    {TSR_ACTION_BACKWARD, TSR_ROLE_SAVED, kAny, kRead},
    {TSR_ACTION_BACKWARD, TSR_ROLE_OUTPUT_GRADIENT, kAny, kRead},
    {TSR_ACTION_BACKWARD, TSR_ROLE_INPUT_GRADIENT, kAny, kWrite | kAdd},
    {TSR_ACTION_BACKWARD, TSR_ROLE_GRADIENT, kAny, kWrite | kAdd},
    {TSR_ACTION_BACKWARD, TSR_ROLE_CONTEXT, kAny, kWrite},
    {TSR_ACTION_BACKWARD_INPUT, TSR_ROLE_PARAMETER, kAny, kRead},
    {TSR_ACTION_BACKWARD_INPUT, TSR_ROLE_INPUT, kAny, kRead},
    {TSR_ACTION_BACKWARD_INPUT, TSR_ROLE_OUTPUT, kAny, kRead},
    {TSR_ACTION_BACKWARD_INPUT, TSR_ROLE_SAVED, kAny, kRead},
    {TSR_ACTION_BACKWARD_INPUT, TSR_ROLE_OUTPUT_GRADIENT, kAny, kRead},
    {TSR_ACTION_BACKWARD_INPUT, TSR_ROLE_INPUT_GRADIENT, kAny, kWrite | kAdd},
    {TSR_ACTION_BACKWARD_INPUT, TSR_ROLE_CONTEXT, kAny, kWrite},
    {TSR_ACTION_BACKWARD_WEIGHT, TSR_ROLE_PARAMETER, kAny, kRead},
    {TSR_ACTION_BACKWARD_WEIGHT, TSR_ROLE_INPUT, kAny, kRead},
    {TSR_ACTION_BACKWARD_WEIGHT, TSR_ROLE_OUTPUT, kAny, kRead},
    {TSR_ACTION_BACKWARD_WEIGHT, TSR_ROLE_SAVED, kAny, kRead},
    {TSR_ACTION_BACKWARD_WEIGHT, TSR_ROLE_OUTPUT_GRADIENT, kAny, kRead},
    {TSR_ACTION_BACKWARD_WEIGHT, TSR_ROLE_GRADIENT, kAny, kWrite | kAdd},
    {TSR_ACTION_BACKWARD_WEIGHT, TSR_ROLE_CONTEXT, kAny, kRead},
    {TSR_ACTION_RECOMPUTE, TSR_ROLE_PARAMETER, kAny, kRead},
    {TSR_ACTION_RECOMPUTE, TSR_ROLE_INPUT, kAny, kRead},
    {TSR_ACTION_RECOMPUTE, TSR_ROLE_OUTPUT, kAny, kWrite},
    {TSR_ACTION_RECOMPUTE, TSR_ROLE_SAVED, kAny, kWrite},
    {TSR_ACTION_LOSS, TSR_ROLE_PARAMETER, kAny, kRead},
    {TSR_ACTION_LOSS, TSR_ROLE_INPUT, kAny, kRead},
    {TSR_ACTION_LOSS, TSR_ROLE_INPUT_GRADIENT, kAny, kWrite | kAdd},
    {TSR_ACTION_LOSS, TSR_ROLE_GRADIENT, kAny, kWrite | kAdd},
    {TSR_ACTION_LOSS, TSR_ROLE_SCALAR, TSR_SCALAR_LOSS, kWrite | kAdd},
    {TSR_ACTION_LOSS, TSR_ROLE_SCALAR, TSR_SCALAR_LOSS_SCALE, kRead},
    {TSR_ACTION_LOSS, TSR_ROLE_SCALAR, TSR_SCALAR_CORRECT, kWrite | kAdd},
    {TSR_ACTION_COPY, TSR_ROLE_SOURCE, 0, kRead, true},
    {TSR_ACTION_COPY, TSR_ROLE_DESTINATION, 0, kWrite, true},
    {TSR_ACTION_CAST, TSR_ROLE_SOURCE, 0, kRead, true},
    {TSR_ACTION_CAST, TSR_ROLE_DESTINATION, 0, kWrite, true},
    {TSR_ACTION_ADD_INTO, TSR_ROLE_SOURCE, 0, kRead, true},
    {TSR_ACTION_ADD_INTO, TSR_ROLE_DESTINATION, 0, kWrite | kAdd, true},
    {TSR_ACTION_SCALE, TSR_ROLE_DESTINATION, 0, kAdd, true},
    {TSR_ACTION_ZERO, TSR_ROLE_DESTINATION, kAny, kWrite, true},
    {TSR_ACTION_SUM_SQUARES, TSR_ROLE_SOURCE, 0, kRead, true},
    {TSR_ACTION_SUM_SQUARES, TSR_ROLE_SCALAR, TSR_SCALAR_ACCUMULATOR, kWrite | kAdd, true},
    {TSR_ACTION_CLIP, TSR_ROLE_SCALAR, TSR_SCALAR_ACCUMULATOR, kRead, true},
    {TSR_ACTION_CLIP, TSR_ROLE_SCALAR, TSR_SCALAR_CLIP, kWrite, true},
    {TSR_ACTION_CLIP, TSR_ROLE_SCALAR, TSR_SCALAR_STEP, kAdd, true},
    {TSR_ACTION_CLIP, TSR_ROLE_SCALAR, TSR_SCALAR_LOSS_SCALE, kRead},
    {TSR_ACTION_OPTIMIZER, TSR_ROLE_DESTINATION, 0, kAdd, true},
    {TSR_ACTION_OPTIMIZER, TSR_ROLE_SOURCE, 0, kRead, true},
    {TSR_ACTION_OPTIMIZER, TSR_ROLE_STATE, kAny, kAdd},
    {TSR_ACTION_OPTIMIZER, TSR_ROLE_SCALAR, TSR_SCALAR_CLIP, kRead, true},
    {TSR_ACTION_OPTIMIZER, TSR_ROLE_SCALAR, TSR_SCALAR_STEP, kRead, true},
    {TSR_ACTION_OPTIMIZER, TSR_ROLE_SCALAR, TSR_SCALAR_LR, kRead, true},
};

static_assert(std::ranges::is_sorted(kRules, {}, &SlotRule::kind) && std::rbegin(kRules)->kind < TSR_ACTION_CALL);

/// The rules of one kind of action, which are next to one another.
std::span<const SlotRule> rules_of(uint32_t kind) {
  static const auto by_kind = [] {
    std::array<std::span<const SlotRule>, TSR_ACTION_CALL> result;
    for (auto first = std::begin(kRules); first != std::end(kRules);) {
      const auto last = std::find_if(first, std::end(kRules), [&](const SlotRule& r) { return r.kind != first->kind; });
      result[first->kind] = {first, last};
      first = last;
    }
    return result;
  }();
  return kind < by_kind.size() ? by_kind[kind] : std::span<const SlotRule>();
}

constexpr SlotRule kWorkspaceRule{0, TSR_ROLE_WORKSPACE, kAny, kWrite};
constexpr SlotRule kPredicateRule{0, TSR_ROLE_SCALAR, TSR_SCALAR_CLIP, kRead};

const SlotRule* rule_of(const Action& action, uint32_t slot) {
  const uint32_t role = TSR_SLOT_ROLE(slot), index = TSR_SLOT_INDEX(slot);
  for (const SlotRule& rule : rules_of(action.kind))
    if (rule.role == role && (rule.index == kAny || rule.index == index)) return &rule;
  if (role == TSR_ROLE_WORKSPACE) return &kWorkspaceRule;
  if ((action.flags & TSR_ACTION_PREDICATED) && slot == TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_CLIP))
    return &kPredicateRule;
  return nullptr;
}

std::string modes_text(uint32_t modes) {
  if (modes == kRead) return "read";
  if (modes == kWrite) return "write";
  return modes == kAdd ? "add" : "write or add";
}

class SlotChecker {
 public:
  SlotChecker(const Program& program, size_t index, DiagnosticList& diagnostics)
      : program_(program), index_(index), action_(program.actions[index]), diagnostics_(diagnostics) {}

  void run() {
    for (size_t i = 0; i < action_.bindings.size(); ++i) {
      const Binding& binding = action_.bindings[i];
      if (action_.find(binding.slot) != &binding) report("binds " + name(binding.slot) + " twice");
      if (action_.kind != TSR_ACTION_CALL) check_rule(binding);
      if (is_compute(action_.kind)) check_operand(binding);
    }
    for (const SlotRule& rule : rules_of(action_.kind))
      if (rule.required && !has(rule))
        report("binds no " + name(TSR_SLOT(rule.role, rule.index == kAny ? 0 : rule.index)));
    if (is_elementwise(action_.kind)) check_same_size();
    if (action_.kind == TSR_ACTION_SCALE && !std::isnormal(static_cast<float>(action_.scale)))
      report("scales by " + std::to_string(action_.scale) + ", which float32 has no normal number for");
    if (action_.home != 0 && !is_elementwise(action_.kind) && action_.kind != TSR_ACTION_CALL) check_home_size();
    check_accumulator();
  }

 private:
  void report(const std::string& what) { diagnostics_.add(action_text(program_, index_) + " " + what); }
  std::string name(uint32_t slot) const { return slot_text(program_, action_, slot); }

  bool has(const SlotRule& rule) const {
    return std::ranges::any_of(action_.bindings, [&](const Binding& b) { return rule_of(action_, b.slot) == &rule; });
  }

  void check_rule(const Binding& binding) {
    const SlotRule* rule = rule_of(action_, binding.slot);
    if (!rule)
      report("binds " + name(binding.slot) + ", which " + std::string(action_name(action_.kind)) + " does not have");
    else if (!(rule->modes >> binding.mode & 1u))
      report("binds " + name(binding.slot) + " with mode " + modes_text(1u << binding.mode) + "; it must be " +
             modes_text(rule->modes));
  }

  void check_operand(const Binding& binding) {
    const Segment& segment = program_.model->segments[action_.segment];
    const uint32_t index = TSR_SLOT_INDEX(binding.slot);
    switch (TSR_SLOT_ROLE(binding.slot)) {
      case TSR_ROLE_PARAMETER:
      case TSR_ROLE_GRADIENT:
        if (!check_position(binding, segment.parameters.size())) return;
        if (!is_cut(segment.parameters[index]))
          check_size(binding, program_.model->parameters[segment.parameters[index]].num_elements);
        return;
      case TSR_ROLE_INPUT:
      case TSR_ROLE_INPUT_GRADIENT:
        if (check_position(binding, segment.inputs.size()))
          check_size(binding, program_.model->values[segment.inputs[index]].num_elements);
        return;
      case TSR_ROLE_OUTPUT:
      case TSR_ROLE_OUTPUT_GRADIENT:
        if (check_position(binding, segment.outputs.size()))
          check_size(binding, program_.model->values[segment.outputs[index]].num_elements);
        return;
      default:
        return;
    }
  }

  bool check_position(const Binding& binding, size_t num_operands) {
    if (TSR_SLOT_INDEX(binding.slot) < num_operands) return true;
    report("binds " + name(binding.slot) + "; its segment has " + std::to_string(num_operands) + " of those");
    return false;
  }

  void check_size(const Binding& binding, uint64_t num_elements) {
    if (binding.num_elements != num_elements)
      report("binds " + name(binding.slot) + " to " + std::to_string(binding.num_elements) + " elements; it has " +
             std::to_string(num_elements));
  }

  /// Whether this rank computes with only a part of the parameter.
  bool is_cut(int parameter) const {
    return std::ranges::any_of(program_.layout, [&](const LayoutEntry& split) {
      return split.parameter == parameter && split.kind == TSR_LAYOUT_SPLIT &&
             program_.mesh->axes()[split.axis].splits == TSR_SPLITS_TENSORS;
    });
  }

  void check_same_size() {
    const Binding* source = action_.find(kSource);
    const Binding* destination = action_.find(kDestination);
    if (!source || !destination) return;
    if (source->num_elements != destination->num_elements)
      report("reads " + std::to_string(source->num_elements) + " elements and writes " +
             std::to_string(destination->num_elements));
    const tsr_dtype from = program_.buffer(source->buffer).dtype, to = program_.buffer(destination->buffer).dtype;
    if (action_.kind == TSR_ACTION_COPY && from != to)
      report("copies " + std::string(dtype_name(from)) + " to " + std::string(dtype_name(to)) + "; that is a cast");
    if (overlap(*source, *destination))
      report("reads and writes " + range_text(program_, *destination) + "; an elementwise action has operands apart");
  }

  void check_home_size() {
    const Home& home = program_.home(action_.home);
    for (const Binding& binding : action_.bindings) {
      const uint32_t role = TSR_SLOT_ROLE(binding.slot);
      const bool is_of_home = role == TSR_ROLE_SOURCE || role == TSR_ROLE_DESTINATION || role == TSR_ROLE_STATE;
      if (is_of_home && binding.num_elements != home.num_elements)
        report("binds " + name(binding.slot) + " to " + std::to_string(binding.num_elements) + " elements; home " +
               home.name + " has " + std::to_string(home.num_elements));
    }
  }

  void check_accumulator() {
    for (const uint32_t index : {uint32_t{TSR_SCALAR_ACCUMULATOR}, uint32_t{TSR_SCALAR_LOSS}}) {
      const Binding* binding = action_.find(TSR_SLOT(TSR_ROLE_SCALAR, index));
      if (!binding) continue;
      const bool is_clip = action_.kind == TSR_ACTION_CLIP;
      const uint64_t num_words = is_clip ? TSR_SQUARES_WORDS : TSR_ACCUMULATOR_LIMBS;
      if (binding->num_elements != num_words || program_.buffer(binding->buffer).dtype != TSR_I64)
        report("binds " + name(binding->slot) + " to " + range_text(program_, *binding) + "; an accumulator is i64[" +
               std::to_string(num_words) + (is_clip ? "], with its run words" : "]"));
    }
  }

  const Program& program_;
  const size_t index_;
  const Action& action_;
  DiagnosticList& diagnostics_;
};

}  // namespace

void verify_slots(const Program& program, DiagnosticList& diagnostics) {
  for (size_t i = 0; i < program.actions.size(); ++i)
    if (!is_collective(program.actions[i].kind)) SlotChecker(program, i, diagnostics).run();
}

}  // namespace tessera::host
