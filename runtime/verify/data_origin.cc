// The content of a range: a parameter, a value of a micro-batch, a gradient, the loss. It is learned only from homes,
// from scalars and from the bindings of compute actions. Under ddp, after
//
//     9     forward h.0.fc_proj mb=0  r %7+9088:4096 p:mlp.c_proj.weight  r %37 i:hidden  w %39 o:ffn_out
//
// %7[9088:13184] is h.0.mlp.c_proj.weight, %37 h.0.hidden mb=0 and %39 h.0.ffn_out mb=0. The bucket %61 of line 42 has
// the origin that its first element has: the gradient of ln_f.weight.
//
// Used to compare the operands of a collective across ranks (collective_matching.cc). Invariant: the content of a
// strategy's own buffers is unknown, and unknown agrees with everything. Cost: n log n in the bindings and the pieces
// of homes; a look-up is logarithmic.

#include "verify/data_origin.h"

#include <iterator>

#include "verify/model/home_table.h"

namespace tessera::host {

std::string origin_text(const Program& program, const DataOrigin& origin) {
  const Model& model = *program.model;
  std::string text;
  switch (origin.role) {
    case TSR_ROLE_PARAMETER:
      text = model.parameters[origin.index].name;
      break;
    case TSR_ROLE_GRADIENT:
      text = "the gradient of " + model.parameters[origin.index].name;
      break;
    case TSR_ROLE_INPUT:
      text = model.values[origin.index].name;
      break;
    case TSR_ROLE_INPUT_GRADIENT:
      text = "the gradient of " + model.values[origin.index].name;
      break;
    case TSR_ROLE_SCALAR:
      text = origin.index == TSR_SCALAR_LOSS      ? "the loss"
             : origin.index == TSR_SCALAR_CORRECT ? "the count of correct predictions"
                                                  : "scalar " + std::to_string(origin.index);
      break;
    default:
      return "something unknown";
  }
  if (origin.micro_batch >= 0) text.append(" mb=").append(std::to_string(origin.micro_batch));
  if (origin.element > 0) text.append("[").append(std::to_string(origin.element)).append(":]");
  if (origin.position > 0) text.append(" (at ").append(std::to_string(origin.position)).append(")");
  return text;
}

DataOrigins::DataOrigins(const Program& program) : staged_(program) {
  learn_homes(program);
  for (const Action& action : program.actions)
    learn_action(program, action);
}

void DataOrigins::learn(uint64_t buffer, uint64_t begin, uint64_t num_elements, const DataOrigin& origin) {
  if (num_elements > 0) known_[buffer].try_emplace(begin, Known{begin + num_elements, origin});
}

void DataOrigins::learn_homes(const Program& program) {
  for (const Home& home : program.homes)
    for (const HomeRun& run : runs_of(home, *program.model))
      for (const uint32_t role : {TSR_HOME_VALUE, TSR_HOME_GRADIENT}) {
        const HomeRole& place = home.roles[role];
        if (!place.buffer) continue;
        const uint32_t as = role == TSR_HOME_VALUE ? TSR_ROLE_PARAMETER : TSR_ROLE_GRADIENT;
        learn(place.buffer, place.offset + run.offset, run.num_elements, {as, run.parameter, -1, run.element, 0});
      }
}

void DataOrigins::learn_action(const Program& program, const Action& action) {
  for (const Binding& binding : action.bindings) {
    const uint32_t role = TSR_SLOT_ROLE(binding.slot), index = TSR_SLOT_INDEX(binding.slot);
    const auto is = [&](uint32_t as, int what, int micro_batch) {
      learn(binding.buffer, binding.offset, binding.num_elements, {as, what, micro_batch, 0, 0});
    };
    if (role == TSR_ROLE_SCALAR) is(role, static_cast<int>(index), -1);
    if (!is_compute(action.kind)) continue;
    const Segment& segment = program.model->segments[action.segment];
    switch (role) {
      case TSR_ROLE_PARAMETER:
      case TSR_ROLE_GRADIENT:
        is(role, segment.parameters[index], -1);
        break;
      case TSR_ROLE_INPUT:
        is(role, segment.inputs[index], action.micro_batch);
        break;
      case TSR_ROLE_OUTPUT:
        is(TSR_ROLE_INPUT, segment.outputs[index], action.micro_batch);
        break;
      case TSR_ROLE_INPUT_GRADIENT:
        is(role, segment.inputs[index], action.micro_batch);
        break;
      case TSR_ROLE_OUTPUT_GRADIENT:
        is(TSR_ROLE_INPUT_GRADIENT, segment.outputs[index], action.micro_batch);
        break;
      default:
        break;
    }
  }
}

DataOrigin DataOrigins::of(const Binding& binding) const {
  const Binding range = staged_.of(binding);
  const auto buffer = known_.find(range.buffer);
  if (buffer == known_.end()) return {};
  // The known range that holds the first element, else the next one that begins within the range.
  auto next = buffer->second.upper_bound(range.offset);
  if (next != buffer->second.begin() && std::prev(next)->second.end > range.offset) {
    --next;
    DataOrigin origin = next->second.origin;
    origin.element += range.offset - next->first;
    return origin;
  }
  if (next == buffer->second.end() || next->first >= range.offset + range.num_elements) return {};
  DataOrigin origin = next->second.origin;
  origin.position = next->first - range.offset;
  return origin;
}

}  // namespace tessera::host
