// The texts of diagnostics. Programs under verification may be wrong in any way, so nothing here trusts an index, an id
// or a name: what cannot be looked up is printed as a number.

#include "verify/diagnostics.h"

#include <algorithm>
#include <iterator>

#include "program/text_words.h"

namespace tessera::host {
namespace {

template <class T>
const T* by_id(const std::vector<T>& all, uint64_t id) {
  const auto found = std::ranges::lower_bound(all, id, {}, &T::id);
  return found == all.end() || found->id != id ? nullptr : &*found;
}

std::string kind_text(uint32_t kind) {
  return is_known_action(kind) ? std::string(action_name(kind)) : "kind " + std::to_string(kind);
}

const std::vector<int>* names_of(const Segment& segment, uint32_t role) {
  switch (role) {
    case TSR_ROLE_PARAMETER:
    case TSR_ROLE_GRADIENT:
      return &segment.parameters;
    case TSR_ROLE_INPUT:
    case TSR_ROLE_INPUT_GRADIENT:
      return &segment.inputs;
    case TSR_ROLE_OUTPUT:
    case TSR_ROLE_OUTPUT_GRADIENT:
      return &segment.outputs;
    default:
      return nullptr;
  }
}

}  // namespace

void DiagnosticList::add(std::string diagnostic) {
  if (diagnostics_.size() < kMaxDiagnostics)
    diagnostics_.push_back(std::move(diagnostic));
  else
    ++num_left_out_;
}

Diagnostics DiagnosticList::take() {
  if (num_left_out_ > 0) diagnostics_.push_back("and " + std::to_string(num_left_out_) + " more");
  num_left_out_ = 0;
  return std::move(diagnostics_);
}

std::string action_text(const Program& program, size_t index) {
  return action_text(program, program.mesh ? program.mesh->rank(program.coordinates) : -1, index);
}

std::string action_text(const Program& program, int rank, size_t index) {
  const Action& action = program.actions[index];
  std::string text;
  if (rank >= 0) text.append("rank ").append(std::to_string(rank)).append(" ");
  text.append("#").append(std::to_string(index)).append(" ");
  text += is_index(action.stream, program.streams) ? program.streams[action.stream].name
                                                   : "stream " + std::to_string(action.stream);
  text.append(" ").append(kind_text(action.kind)).append(object_text(program, action));
  if (is_compute(action.kind)) text += " mb=" + std::to_string(action.micro_batch);
  return text;
}

std::string object_text(const Program& program, const Action& action) {
  if (is_compute(action.kind) && program.model && is_index(action.segment, program.model->segments))
    return " " + program.model->segments[action.segment].name;
  if (const Home* home = home_or_null(program, action.home)) return " " + home->name;
  if (action.bindings.empty()) return "";
  const Buffer* buffer = buffer_or_null(program, action.bindings.front().buffer);
  return buffer ? " " + buffer->name : "";
}

std::string buffer_text(const Buffer& buffer) {
  const bool known = buffer.kind >= TSR_BUFFER_HOME && buffer.kind <= TSR_BUFFER_FETCHED;
  return (known ? std::string(buffer_kind_name(buffer.kind)) : "buffer") + " " + buffer.name;
}

std::string range_text(const Program& program, const Binding& binding) {
  const Buffer* buffer = buffer_or_null(program, binding.buffer);
  if (!buffer) return "buffer %" + std::to_string(binding.buffer);
  return range_text(*buffer, binding.offset, binding.offset + binding.num_elements);
}

std::string range_text(const Buffer& buffer, uint64_t begin, uint64_t end) {
  const std::string text = buffer_text(buffer);
  if (begin == 0 && end == buffer.num_elements) return text;
  return text + "[" + std::to_string(begin) + ":" + std::to_string(end) + "]";
}

std::string slot_text(const Program& program, const Action& action, uint32_t slot) {
  const uint32_t role = TSR_SLOT_ROLE(slot), index = TSR_SLOT_INDEX(slot);
  const bool is_known = role > 0 && role < std::size(kSlotRoles);
  const std::string text = std::string(is_known ? kSlotRoles[role] : "?") + std::to_string(index);
  if (!is_compute(action.kind) || !is_index(action.segment, program.model->segments)) return text;
  const std::vector<int>* names = names_of(program.model->segments[action.segment], role);
  if (!names || index >= names->size()) return text;
  const bool is_parameter = role == TSR_ROLE_PARAMETER || role == TSR_ROLE_GRADIENT;
  const int i = (*names)[index];
  return text + " (" + (is_parameter ? program.model->parameters[i].name : program.model->values[i].name) + ")";
}

std::string group_text(const Program& program, const Group& group) {
  if (group.axis == TSR_WORLD_AXIS) return "world";
  std::string text = is_index(group.axis, program.mesh->axes()) ? program.mesh->axes()[group.axis].name
                                                                : "axis " + std::to_string(group.axis);
  for (size_t i = 0; i < group.coordinates.size(); ++i)
    text.append(i ? "," : " {").append(std::to_string(group.coordinates[i]));
  return group.coordinates.empty() ? text : text + "}";
}

bool is_known_action(uint32_t kind) {
  return is_compute(kind) || is_collective(kind) || is_elementwise(kind) || kind == TSR_ACTION_CALL ||
         (kind >= TSR_ACTION_SUM_SQUARES && kind <= TSR_ACTION_OPTIMIZER);
}

const Buffer* buffer_or_null(const Program& program, uint64_t id) {
  return by_id(program.buffers, id);
}
const Home* home_or_null(const Program& program, uint64_t id) {
  return by_id(program.homes, id);
}

}  // namespace tessera::host
