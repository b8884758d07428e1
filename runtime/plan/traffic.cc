// Counts bytes, not time. The formulas (traffic.h) hold for algorithms that send each operand once to the rank that
// adds it, as canonical sums do; a ring sends as many bytes.
// An all_reduce is counted as what it is made of, a reduce_scatter and an all_gather of the same buffer. Slices need
// not be equal: the bytes of a rank are those of its own.

#include "plan/traffic.h"

#include <algorithm>
#include <map>
#include <set>

#include "passes/host_staging.h"
#include "program/collective_operands.h"

namespace tessera::host {
namespace {

uint64_t bytes_of(const Program& program, const Binding* binding) {
  return binding ? TSR_NUM_BYTES(program.buffer(binding->buffer).dtype, binding->num_elements) : 0;
}

uint64_t slice_bytes(const Program& program, const Action& action, const CollectiveOperands& form,
                     const Binding& whole) {
  const auto offsets = slice_offsets(action, whole.num_elements, form.num_ranks);
  return (offsets[form.position + 1] - offsets[form.position]) * TSR_NUM_BYTES(program.buffer(whole.buffer).dtype, 1);
}

uint64_t message_bytes(const Program& program, const Action& action) {
  uint64_t num_bytes = 0;
  for (const Message& message : messages_of(action))
    if (!message.is_receive) num_bytes += bytes_of(program, message.binding);
  return num_bytes;
}

/// Collectives that make copies of parameters: fsdp gathers slices, zero3 broadcasts from owners.
bool fills(const Action& action) {
  return action.kind == TSR_ACTION_ALL_GATHER || action.kind == TSR_ACTION_BROADCAST;
}

/// A range of a buffer that holds parameters of a unit.
struct UnitRange {
  uint64_t begin, end;
  int unit;
  bool overlaps(const Binding& b) const { return begin < b.offset + b.num_elements && b.offset < end; }
};

/// Where compute actions find parameters in gathered buffers: a strategy may put several units into one buffer.
std::map<uint64_t, std::vector<UnitRange>> gathered_ranges(const Program& program) {
  std::map<uint64_t, std::vector<UnitRange>> ranges;
  for (const Action& action : program.actions) {
    if (!is_compute(action.kind)) continue;
    const Segment& segment = program.model->segments[action.segment];
    for (const Binding& b : action.bindings) {
      if (TSR_SLOT_ROLE(b.slot) != TSR_ROLE_PARAMETER || program.buffer(b.buffer).kind != TSR_BUFFER_GATHERED) continue;
      const int unit = program.model->parameters[segment.parameters[TSR_SLOT_INDEX(b.slot)]].unit;
      ranges[b.buffer].push_back({b.offset, b.offset + b.num_elements, unit});
    }
  }
  return ranges;
}

}  // namespace

uint64_t sent_bytes(const Program& program, const Action& action) {
  const CollectiveOperands form(program, action);
  if (form.num_ranks < 2 || action.kind == TSR_ACTION_BARRIER) return 0;
  const auto others = static_cast<uint64_t>(form.num_ranks - 1);
  const Binding* whole = form.given();
  switch (action.kind) {
    case TSR_ACTION_REDUCE_SCATTER:
    case TSR_ACTION_ALL_TO_ALL:
      return bytes_of(program, whole) - slice_bytes(program, action, form, *whole);
    case TSR_ACTION_ALL_GATHER:
      return others * slice_bytes(program, action, form, *form.destination);
    case TSR_ACTION_ALL_REDUCE:
      // Multiplied first: a division before would round for each slice.
      return 2 * bytes_of(program, whole) * others / form.num_ranks;
    case TSR_ACTION_BROADCAST:
      return form.position == action.peer ? others * bytes_of(program, whole) : 0;
    case TSR_ACTION_REDUCE:
      return form.position == action.peer ? 0 : bytes_of(program, whole);
    default:
      return message_bytes(program, action);
  }
}

std::vector<Traffic> traffic_of(const Program& program) {
  std::vector<Traffic> result;
  for (const Action& action : program.actions) {
    if (!is_collective(action.kind)) continue;
    const std::string& stream = program.streams[action.stream].name;
    auto entry =
        std::ranges::find_if(result, [&](const Traffic& t) { return t.stream == stream && t.kind == action.kind; });
    if (entry == result.end()) entry = result.insert(entry, {stream, action.kind});
    ++entry->num_actions;
    entry->sent_bytes += sent_bytes(program, action);
  }
  std::ranges::stable_sort(result, {}, &Traffic::stream);
  return result;
}

std::vector<UnitGathers> gathers_of(const Program& program) {
  const auto ranges = gathered_ranges(program);
  const StagedRanges staged(program);
  std::map<int, std::set<uint64_t>> buffers;      // by unit
  std::map<int, std::set<uint64_t>> collectives;  // by unit: actions
  for (const Action& action : program.actions) {
    const Binding* destination = fills(action) ? action.find(kDestination) : nullptr;
    if (!destination) continue;
    const Binding filled = staged.of(*destination);
    const auto in_buffer = ranges.find(filled.buffer);
    if (in_buffer == ranges.end()) continue;
    for (const UnitRange& range : in_buffer->second)
      if (range.overlaps(filled)) {
        buffers[range.unit].insert(filled.buffer);
        collectives[range.unit].insert(action.id);
      }
  }
  std::vector<UnitGathers> result;
  for (const auto& [unit, filled] : buffers)
    result.push_back({program.model->units[unit].name, filled.size(), collectives[unit].size()});
  return result;
}

}  // namespace tessera::host
