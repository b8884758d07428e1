// Dead code elimination on a fresh base program, for --freeze. With wte and wpe frozen, the end of the backward of
//
//     backward h.0.add_ln_2 mb=0  ...  w %80 di:x  w %81 di:projected  w g:...
//     backward h.0.ln_1 mb=0  ...  a %80 di:x  w g:ln_1.weight  w g:ln_1.bias
//     backward wpe mb=0  r %80 do:h.0.x
//     backward wte mb=0  r tokens i:tokens  r %80 do:wte.out
//
// becomes
//
//     backward h.0.add_ln_2 mb=0  ...  w %81 di:projected  w g:...
//     backward h.0.ln_1 mb=0  ...  w g:ln_1.weight  w g:ln_1.bias
//
// One walk from the end of the list keeps the set of buffers that are read later, as in a liveness analysis. Only
// results that kernels may leave out are dropped: gradients of inputs, and what a forward saves. The remaining results
// do not change by a bit. Cost: bindings times the logarithm of buffers.

#include "passes/dce.h"

#include <algorithm>
#include <set>
#include <vector>

namespace tessera::host {
namespace {

int gradient_value(const Model& model, int value) {
  while (model.values[value].gradient_of >= 0)
    value = model.values[value].gradient_of;
  return value;
}

/// Whether the value exists twice, whole and in rows. The actions that move its gradient from one to the other are
/// inserted by a later pass, so here the gradient seems to have no reader.
bool is_moved(const Model& model, int value) {
  const int gradient = gradient_value(model, value);
  return std::ranges::any_of(model.values, [&](const Value& whole) {
    return whole.same_as >= 0 &&
           (gradient_value(model, whole.same_as) == gradient || &whole - model.values.data() == value);
  });
}

/// Of each value whether its gradient seems to have no reader though a trainable parameter needs it: the value is
/// moved, and follows from the parameter.
std::vector<bool> moved_and_needed(const Model& model) {
  const auto whole = [&](int value) { return model.values[value].same_as >= 0 ? model.values[value].same_as : value; };
  std::vector<bool> follows(model.values.size(), false), result(model.values.size(), false);
  for (const Segment& segment : model.segments) {
    const bool trains = std::ranges::any_of(segment.parameters, [&](int p) { return model.parameters[p].trainable; });
    const auto is_trained = [&](int value) { return follows[whole(value)]; };
    if (!trains && std::ranges::none_of(segment.inputs, is_trained)) continue;
    for (const int value : segment.outputs)
      follows[whole(value)] = true;
  }
  for (int value = 0; value < static_cast<int>(result.size()); ++value)
    result[value] = follows[whole(value)] && is_moved(model, value);
  return result;
}

/// Results that kernels may leave out: gradients of values, and what a forward saves. `is_kept`: of values whose
/// gradient is not left out.
bool may_be_left_out(const Program& program, const Action& action, const Binding& binding,
                     const std::vector<bool>& is_kept) {
  const uint32_t role = TSR_SLOT_ROLE(binding.slot);
  if (is_compute(action.kind) && role == TSR_ROLE_INPUT_GRADIENT &&
      is_kept[program.model->segments[action.segment].inputs[TSR_SLOT_INDEX(binding.slot)]])
    return false;
  return (is_compute(action.kind) && role == TSR_ROLE_INPUT_GRADIENT) ||
         (action.kind == TSR_ACTION_FORWARD && role == TSR_ROLE_SAVED);
}

bool has_result(const Action& action) {
  return std::ranges::any_of(action.bindings, [](const Binding& b) {
    return b.mode != TSR_MODE_READ && TSR_SLOT_ROLE(b.slot) != TSR_ROLE_WORKSPACE;
  });
}

}  // namespace

void eliminate_dead_code(Program& program) {
  std::set<uint64_t> read;  // by what follows
  const std::vector<bool> is_kept = moved_and_needed(*program.model);
  for (size_t i = program.actions.size(); i-- > 0;) {
    Action& action = program.actions[i];
    std::erase_if(action.bindings, [&](const Binding& b) {
      return may_be_left_out(program, action, b, is_kept) && !read.contains(b.buffer);
    });
    if (is_backward(action.kind) && !has_result(action)) {
      action.bindings.clear();
      continue;
    }
    for (const Binding& b : action.bindings)
      if (b.mode == TSR_MODE_READ) read.insert(b.buffer);
  }
  std::erase_if(program.actions, [](const Action& a) { return is_backward(a.kind) && a.bindings.empty(); });
  program.erase_unused_buffers(program.actions);
}

}  // namespace tessera::host
