// Asks the device about every action that computes. For example
//
//     rank 0 #3 compute forward h.0.ln_1 mb=0 binds s7, which the device does not list for its op
//     rank 0 #38 compute backward h.0.ln_1 mb=0 binds no s0, which the device's op needs
//     rank 0 #5 compute forward h.0.attention mb=0 binds w0 to 1024 elements; the device's op has 2048
//
// Invariant: a kernel need not check the sizes of its operands. Cost: a call of the device's describe for each action.

#include "verify/model/verify_described.h"

#include <algorithm>
#include <optional>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

bool is_kernel(uint32_t kind) {
  return is_compute(kind) || kind == TSR_ACTION_SUM_SQUARES || kind == TSR_ACTION_CLIP || kind == TSR_ACTION_OPTIMIZER;
}

/// Their operands are as long as one another. The device may not have the conversion of two dtypes, nor one of them.
bool converts(const Program& program, const Action& action) {
  if (action.kind != TSR_ACTION_CAST && action.kind != TSR_ACTION_ADD_INTO && action.kind != TSR_ACTION_SCALE)
    return false;
  return program.streams[action.stream].kind != TSR_STREAM_KIND_HOST;
}

/// The slots of the action's op on the device; nothing where it does not have the op, which is a finding for
/// conversions alone: others were asked of it when the program was built.
std::optional<std::vector<tsr_slot_spec>> slots_of(const Program& program, size_t index, const DescribeOp& describe,
                                                   DiagnosticList& diagnostics) {
  const Action& action = program.actions[index];
  if (is_kernel(action.kind)) return describe(op_of(program, action));
  if (!converts(program, action)) return std::nullopt;
  try {
    return describe(op_of(program, action));
  } catch (const Error& e) {
    diagnostics.add(concat(action_text(program, index), " cannot run on the device: ", e.what()));
    return std::nullopt;
  }
}

}  // namespace

void verify_described(const Program& program, const DescribeOp& describe, DiagnosticList& diagnostics) {
  for (size_t i = 0; i < program.actions.size(); ++i) {
    const Action& action = program.actions[i];
    const auto described = slots_of(program, i, describe, diagnostics);
    if (!described) continue;
    const std::vector<tsr_slot_spec>& slots = *described;
    for (const tsr_slot_spec& slot : slots)
      if (!(slot.flags & TSR_SLOT_OPTIONAL) && !action.find(slot.slot))
        diagnostics.add(concat(action_text(program, i), " binds no ", slot_text(program, action, slot.slot),
                               ", which the device's op needs"));
    for (const Binding& binding : action.bindings) {
      const auto spec = std::ranges::find(slots, binding.slot, &tsr_slot_spec::slot);
      const bool is_listed = spec != slots.end();
      if (is_listed && spec->num_elements == binding.num_elements &&
          spec->dtype == program.buffer(binding.buffer).dtype)
        continue;
      const std::string bound = concat(action_text(program, i), " binds ", slot_text(program, action, binding.slot));
      if (!is_listed)
        diagnostics.add(bound + ", which the device does not list for its op");
      else if (spec->num_elements != binding.num_elements)
        diagnostics.add(
            concat(bound, " to ", binding.num_elements, " elements; the device's op has ", spec->num_elements));
      else
        diagnostics.add(concat(bound, " to ", dtype_name(program.buffer(binding.buffer).dtype),
                               "; the device's op has ", dtype_name(spec->dtype)));
    }
  }
}

}  // namespace tessera::host
