// What the contents of a range are: a parameter, a value of a micro-batch, a gradient, the loss. It is learnt from
// homes and from what compute actions bind, and only from those; what a strategy's own buffers hold is unknown, and
// unknown agrees with everything. Used to compare what ranks put into a collective (meetings.cc). Lookup: logarithmic.

#include "verify/subject.h"

#include <iterator>

namespace tessera::host {

std::string subject_text(const Program& program, const Subject& subject) {
  const Model& model = *program.model;
  std::string text;
  switch (subject.role) {
    case TSR_ROLE_PARAMETER:
      text = model.parameters[subject.index].name;
      break;
    case TSR_ROLE_GRADIENT:
      text = "the gradient of " + model.parameters[subject.index].name;
      break;
    case TSR_ROLE_INPUT:
      text = model.values[subject.index].name;
      break;
    case TSR_ROLE_INPUT_GRADIENT:
      text = "the gradient of " + model.values[subject.index].name;
      break;
    case TSR_ROLE_SCALAR:
      text = subject.index == TSR_SCALAR_LOSS      ? "the loss"
             : subject.index == TSR_SCALAR_CORRECT ? "the count of correct predictions"
                                                   : "scalar " + std::to_string(subject.index);
      break;
    default:
      return "something unknown";
  }
  if (subject.micro_batch >= 0) text.append(" mb=").append(std::to_string(subject.micro_batch));
  if (subject.element > 0) text.append("[").append(std::to_string(subject.element)).append(":]");
  if (subject.position > 0) text.append(" (at ").append(std::to_string(subject.position)).append(")");
  return text;
}

Subjects::Subjects(const Program& program) : staged_(program) {
  learn_homes(program);
  for (const Action& action : program.actions)
    learn_action(program, action);
}

void Subjects::learn(uint64_t buffer, uint64_t begin, uint64_t num_elements, const Subject& subject) {
  if (num_elements > 0) known_[buffer].try_emplace(begin, Known{begin + num_elements, subject});
}

void Subjects::learn_homes(const Program& program) {
  for (const Home& home : program.homes)
    for (const tsr_piece& piece : home.pieces)
      for (const uint32_t role : {TSR_HOME_VALUE, TSR_HOME_GRADIENT}) {
        const tsr_home_role& place = home.roles[role];
        if (!place.buffer) continue;
        const uint32_t as = role == TSR_HOME_VALUE ? TSR_ROLE_PARAMETER : TSR_ROLE_GRADIENT;
        learn(place.buffer, place.offset + piece.home_offset, piece.num_elements,
              {as, piece.parameter, -1, piece.parameter_offset, 0});
      }
}

void Subjects::learn_action(const Program& program, const Action& action) {
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

Subject Subjects::of(const Binding& binding) const {
  const Binding range = staged_.of(binding);
  const auto buffer = known_.find(range.buffer);
  if (buffer == known_.end()) return {};
  // The known range that holds the first element, else the next one that begins within the range.
  auto next = buffer->second.upper_bound(range.offset);
  if (next != buffer->second.begin() && std::prev(next)->second.end > range.offset) {
    --next;
    Subject subject = next->second.subject;
    subject.element += range.offset - next->first;
    return subject;
  }
  if (next == buffer->second.end() || next->first >= range.offset + range.num_elements) return {};
  Subject subject = next->second.subject;
  subject.position = next->first - range.offset;
  return subject;
}

}  // namespace tessera::host
