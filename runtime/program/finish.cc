#include "program/finish.h"

#include <algorithm>
#include <map>

#include "program/range_set.h"
#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr uint32_t kSource = TSR_SLOT(TSR_ROLE_SOURCE, 0);
constexpr uint32_t kDestination = TSR_SLOT(TSR_ROLE_DESTINATION, 0);

Action sum_in_place(Program& program, const Group& group, const char* lane, const Binding& what) {
  Action action;
  action.id = program.next_id++;
  action.kind = TSR_ACTION_ALL_REDUCE;
  action.reduce = TSR_REDUCE_SUM;
  action.stream = program.comm_stream(group.axis, lane);
  action.group = program.group(group);
  action.bindings = {{what.buffer, what.offset, what.num_elements, kDestination, TSR_MODE_ADD}};
  return action;
}

/// Position after the last action that writes or adds to the range, or -1 if none does.
ptrdiff_t after_last_writer(const Program& program, const Binding& range) {
  for (size_t i = program.actions.size(); i-- > 0;)
    for (const Binding& b : program.actions[i].bindings)
      if (b.buffer == range.buffer && b.mode != TSR_MODE_READ && b.offset < range.offset + range.num_elements &&
          range.offset < b.offset + b.num_elements)
        return static_cast<ptrdiff_t>(i) + 1;
  return -1;
}

/// Position of the first action that reads the buffer, or -1 if none does.
ptrdiff_t before_first_reader(const Program& program, uint64_t buffer) {
  for (size_t i = 0; i < program.actions.size(); ++i)
    for (const Binding& b : program.actions[i].bindings)
      if (b.buffer == buffer && b.mode == TSR_MODE_READ) return static_cast<ptrdiff_t>(i);
  return -1;
}

/// Before what needs the sum, since a rank that owns nothing adds nothing and yet has to meet the others there.
void sum_over_world(Program& program, std::string_view accumulator) {
  const uint64_t id = find_buffer(program, TSR_BUFFER_ACCUMULATOR, accumulator);
  if (!id) return;
  const Binding whole{id, 0, program.buffer(id).num_elements, 0, 0};
  const ptrdiff_t reader = before_first_reader(program, id);
  const ptrdiff_t at = reader >= 0 ? reader : after_last_writer(program, whole);
  if (at < 0) return;
  Action action = sum_in_place(program, Group{}, "scalars", whole);
  program.actions.insert(program.actions.begin() + at, std::move(action));
}

void complete_gradients(Program& program) {
  for (const Home& home : program.homes) {
    const tsr_home_role& gradient = home.roles[TSR_HOME_GRADIENT];
    if (!gradient.buffer || home.pieces.empty()) continue;
    for (const Split& split : program.layout) {
      if (split.parameter != home.pieces[0].parameter || split.kind != TSR_LAYOUT_REPLICATED) continue;
      if (program.mesh->axes()[split.axis].splits != TSR_SPLITS_LAYERS || split.coordinates.size() < 2) continue;
      const Binding range{gradient.buffer, gradient.offset, gradient.num_elements, 0, 0};
      const ptrdiff_t at = after_last_writer(program, range);
      if (at < 0) continue;
      Action action = sum_in_place(program, Group{split.axis, split.coordinates}, "completion", range);
      action.home = home.id;
      program.actions.insert(program.actions.begin() + at, std::move(action));
    }
  }
}

/// What has been written of each transient buffer while walking the list.
using Written = std::map<uint64_t, RangeSet>;

void turn_first_adds_into_writes(Program& program) {
  Written written;
  for (Action& action : program.actions) {
    const bool accumulates = is_compute(action.kind) || action.kind == TSR_ACTION_ADD;
    for (Binding& b : action.bindings) {
      const Buffer& buffer = program.buffer(b.buffer);
      if (buffer.persistent || b.mode == TSR_MODE_READ) continue;
      RangeSet& set = written[b.buffer];
      if (b.mode == TSR_MODE_ADD && accumulates && !set.contains(b.offset, b.offset + b.num_elements)) {
        if (!set.disjoint(b.offset, b.offset + b.num_elements))
          throw Error(TSR_E_INVALID_ARGUMENT, std::string(action_name(action.kind)) + " adds into " + buffer.name +
                                                  "[" + std::to_string(b.offset) + ":" +
                                                  std::to_string(b.offset + b.num_elements) +
                                                  "], which is only partly written");
        b.mode = TSR_MODE_WRITE;
      }
      set.add(b.offset, b.offset + b.num_elements);
    }
  }
}

/// By buffer, the ranges that hold elements of a parameter.
Written parameter_ranges(const Program& program) {
  Written ranges;
  for (const Home& home : program.homes)
    for (const tsr_home_role& role : home.roles)
      if (role.buffer)
        for (const tsr_piece& piece : home.pieces)
          ranges[role.buffer].add(role.offset + piece.home_offset,
                                  role.offset + piece.home_offset + piece.num_elements);
  for (const Action& action : program.actions)
    if (is_compute(action.kind))
      for (const Binding& b : action.bindings)
        ranges[b.buffer].add(b.offset, b.offset + b.num_elements);
  return ranges;
}

void zero_pads(Program& program) {
  const Written real = parameter_ranges(program);
  Written written;
  std::vector<Action> result;
  for (Action& action : program.actions) {
    Action zero;
    for (const Binding& b : action.bindings) {
      if (program.buffer(b.buffer).persistent) continue;
      RangeSet& set = written[b.buffer];
      const auto known = real.find(b.buffer);
      if (b.mode != TSR_MODE_WRITE && known != real.end())
        for (const auto& [begin, end] : set.gaps(b.offset, b.offset + b.num_elements)) {
          if (!known->second.disjoint(begin, end)) continue;  // an unwritten parameter: the verifier's business
          const auto slot = TSR_SLOT(TSR_ROLE_DESTINATION, zero.bindings.size());
          zero.bindings.push_back({b.buffer, begin, end - begin, slot, TSR_MODE_WRITE});
        }
      for (const Binding& pad : zero.bindings)
        written[pad.buffer].add(pad.offset, pad.offset + pad.num_elements);
      if (b.mode != TSR_MODE_READ) written[b.buffer].add(b.offset, b.offset + b.num_elements);
    }
    if (!zero.bindings.empty()) {
      zero.id = program.next_id++;
      zero.kind = TSR_ACTION_ZERO;
      result.push_back(std::move(zero));
    }
    result.push_back(std::move(action));
  }
  program.actions = std::move(result);
}

}  // namespace

void finish_program(Program& program) {
  if (program.mesh->num_ranks() > 1) {
    sum_over_world(program, kLossAccumulator);
    sum_over_world(program, kSquaresAccumulator);
  }
  complete_gradients(program);
  turn_first_adds_into_writes(program);
  zero_pads(program);
}

void bind_workspaces(Program& program, const DescribeCollective& describe) {
  for (Action& action : program.actions) {
    if (!is_collective(action.kind) || action.bindings.empty()) continue;
    const auto members = program.mesh->members(program.groups[action.group], program.coordinates);
    const uint64_t num_bytes = members.size() < 2 ? 0 : describe(program, action, static_cast<int>(members.size()));
    if (num_bytes == 0) continue;
    const std::string about =
        std::string(action_name(action.kind)) + " " + program.buffer(action.bindings[0].buffer).name;
    const uint64_t id =
        program.add_buffer({0, about, TSR_BUFFER_WORKSPACE, TSR_MEMORY_DEVICE, TSR_U8, false, num_bytes});
    action.bindings.push_back({id, 0, num_bytes, TSR_SLOT(TSR_ROLE_WORKSPACE, 0), TSR_MODE_WRITE});
  }
}

}  // namespace tessera
