// Completes a program after the last pass. In the program of ddp (tests/golden/programs/two-blocks-ddp.txt):
//
//     20    compute             loss loss mb=0  ...  a %16 x:loss  w %60 di:ln_f.out  w %61+28928:3072 g:weight  ...
//     21    comm.world.scalars  all_reduce group=world reduce=sum  a %16 dst  # 20            inserted: the loss
//     ...
//     40    compute             backward wte mb=0  ...  a %61+28928:3072 g:weight
//     41    compute             zero  w %61+32:96 dst  w %61+160:96 dst:1  ...                inserted: pads
//     42    comm.dp.gradient    all_reduce group=dp reduce=sum  a %61 dst  w %87 w:0  # 41
//     ...
//     71    comm.world.scalars  all_reduce group=world reduce=sum  a %17 dst  # 70            inserted: squares
//     72    compute             clip  r %17 x:squares  w %18 x:clip  a %19 x:step  # 71
//
// In line 20 the gradient of wte is written, in line 40 it is added to: both were bound with *add* until here. Line 41
// is there because parameters start on multiples of 128 elements: the reduction reads the gaps between them, which no
// kernel writes.
// All ranks of a group insert the same collectives, whether they own anything or not: only the layout decides, which is
// equal on all ranks. Cost: linear in the bindings, and what completion.cc costs.

#include "passes/finalize.h"

#include <algorithm>

#include "passes/completion.h"
#include "passes/divergence.h"
#include "program/buffer_index.h"
#include "program/range_set.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

/// Position after the last action that writes or adds to the range, or -1 if none does.
ptrdiff_t after_last_writer(const Program& program, const Binding& range) {
  for (size_t i = program.actions.size(); i-- > 0;)
    for (const Binding& b : program.actions[i].bindings)
      if (b.buffer == range.buffer && b.mode != TSR_MODE_READ && b.offset < range.offset + range.num_elements &&
          range.offset < b.offset + b.num_elements)
        return static_cast<ptrdiff_t>(i) + 1;
  return -1;
}

bool has_stages(const Program& program) {
  return std::ranges::any_of(program.mesh->axes(),
                             [](const Axis& a) { return a.splits == TSR_SPLITS_LAYERS && a.num_ranks > 1; });
}

Binding accumulator(const Program& program, std::string_view name) {
  const uint64_t id = find_buffer(program, TSR_BUFFER_ACCUMULATOR, name);
  return id ? Binding{id, 0, program.buffer(id).num_elements, 0, 0} : Binding{};
}

/// Where all ranks train the same parameters, squares are summed over the world. Where the ranks of an axis train
/// parameters of their own, each has its own norm: squares are summed over the other axes, one after another, which is
/// the same as at once because the sums are exact. The count of values that are not finite (element 0) is always summed
/// over the world: all ranks skip a step together. So are the run words, axis by axis, with the squares where those are
/// summed: ranks that are missing in a sum of squares are missing in ARRIVALS.
std::vector<Action> sums_of_squares(Program& program, const Binding& squares) {
  const auto& axes = program.mesh->axes();
  const std::vector<bool> divergent = divergent_axes(*program.model, *program.mesh, program.layout);
  if (!std::ranges::count(divergent, true)) return {sum_in_place(program, Group{}, "scalars", squares)};
  Binding non_finite = squares, finite_and_run_words = squares, run_words = squares;
  non_finite.num_elements = finite_and_run_words.offset = 1;
  finite_and_run_words.num_elements -= 1;
  run_words.offset = TSR_ACCUMULATOR_LIMBS;
  run_words.num_elements -= TSR_ACCUMULATOR_LIMBS;
  std::vector<Action> sums{sum_in_place(program, Group{}, "scalars", non_finite)};
  for (size_t axis = 0; axis < axes.size(); ++axis)
    if (axes[axis].num_ranks > 1)
      sums.push_back(sum_in_place(program, Group{static_cast<int>(axis), {}}, "scalars",
                                  divergent[axis] ? run_words : finite_and_run_words));
  return sums;
}

/// Inserted before the first consumer, not after the last producer: a rank that owns no slice has no producer, but must
/// still join the collective.
void sum_squares(Program& program) {
  const Binding squares = accumulator(program, kSquaresAccumulator);
  const auto reader = first_reader(program.actions, squares);
  if (reader == program.actions.end()) return;
  const std::vector<Action> sums = sums_of_squares(program, squares);
  program.actions.insert(reader, sums.begin(), sums.end());
}

/// The groups over which losses are partial sums: ranks of an axis that splits tensors compute the same loss. The sums
/// are exact, so nested sums equal one sum.
std::vector<Group> groups_of_loss(const Mesh& mesh) {
  std::vector<Group> groups;
  bool is_all = true;
  for (size_t axis = 0; axis < mesh.axes().size(); ++axis) {
    if (mesh.axes()[axis].num_ranks < 2) continue;
    if (mesh.axes()[axis].splits == TSR_SPLITS_TENSORS)
      is_all = false;
    else
      groups.push_back({static_cast<int>(axis), {}});
  }
  return is_all ? std::vector<Group>{Group{}} : groups;
}

/// The loss, and a classifier's count of correct predictions. Inserted after the last loss. With pipeline stages it is
/// inserted before the norm instead: stages without a loss still have to send, and a collective in front of a send
/// would hold up the peers that wait for it.
void sum_loss_over_world(Program& program) {
  const Binding loss = accumulator(program, kLossAccumulator);
  ptrdiff_t at = loss.buffer ? after_last_writer(program, loss) : -1;
  if (at < 0) return;
  if (has_stages(program)) {
    const Binding squares = accumulator(program, kSquaresAccumulator);
    at = first_reader(program.actions, squares) - program.actions.begin();
  }
  for (const std::string_view name : {kLossAccumulator, kCorrectCount})
    if (const Binding scalar = accumulator(program, name); scalar.buffer)
      for (const Group& group : groups_of_loss(*program.mesh)) {
        Action action = sum_in_place(program, group, "scalars", scalar);
        program.actions.insert(program.actions.begin() + at++, std::move(action));
      }
}

/// Ranges of each buffer, in the order of Program::buffers.
using Ranges = std::vector<RangeSet>;

/// Saves a fill and a read of every gradient. Other kinds of actions keep their *add*: on a range that nothing has
/// written it is an error, which verify_written reports.
void turn_first_adds_into_writes(Program& program) {
  const BufferIndex index_of(program);
  Ranges written(program.buffers.size());
  for (Action& action : program.actions) {
    const bool accumulates = is_compute(action.kind) || action.kind == TSR_ACTION_ADD_INTO;
    for (Binding& b : action.bindings) {
      if (b.mode == TSR_MODE_READ) continue;
      const size_t index = index_of(b.buffer);
      const Buffer& buffer = program.buffers[index];
      if (buffer.persistent) continue;
      RangeSet& set = written[index];
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

/// The ranges that hold elements of a parameter.
Ranges parameter_ranges(const Program& program, const BufferIndex& index_of) {
  Ranges ranges(program.buffers.size());
  for (const Home& home : program.homes)
    for (const HomeRange& range : ranges_of(home))
      for (const auto& [number, role] : home.roles) {
        const uint64_t begin = role.offset + range.home_offset;
        if (role.buffer) ranges[index_of(role.buffer)].add(begin, begin + range.num_elements);
      }
  for (const Action& action : program.actions)
    if (is_compute(action.kind))
      for (const Binding& b : action.bindings)
        ranges[index_of(b.buffer)].add(b.offset, b.offset + b.num_elements);
  return ranges;
}

/// Where a collective's operands are: in the host's memory or the device's.
uint32_t memory_of(const Program& program, const Action& collective) {
  const bool on_host = std::ranges::any_of(
      collective.bindings, [&](const Binding& b) { return program.buffer(b.buffer).memory == TSR_MEMORY_HOST; });
  return on_host ? TSR_MEMORY_HOST : TSR_MEMORY_DEVICE;
}

}  // namespace

void finalize_program(Program& program) {
  if (program.mesh->num_ranks() > 1) {
    sum_loss_over_world(program);
    sum_squares(program);
  }
  complete_gradients(program);
  turn_first_adds_into_writes(program);
}

// Only gaps that hold no parameter are zeroed. An unwritten parameter stays unwritten, and is a diagnostic: a zero
// there would hide a backward that is missing.
void zero_pads(Program& program) {
  const BufferIndex index_of(program);
  const Ranges real = parameter_ranges(program, index_of);
  Ranges written(program.buffers.size());
  std::vector<Action> result;
  for (Action& action : program.actions) {
    Action zero;
    for (const Binding& b : action.bindings) {
      const size_t index = index_of(b.buffer);
      if (program.buffers[index].persistent) continue;
      if (b.mode != TSR_MODE_WRITE && !real[index].empty())
        for (const auto& [begin, end] : written[index].gaps(b.offset, b.offset + b.num_elements)) {
          if (!real[index].disjoint(begin, end)) continue;  // an unwritten parameter: left to the verifier
          const auto slot = TSR_SLOT(TSR_ROLE_DESTINATION, zero.bindings.size());
          zero.bindings.push_back({b.buffer, begin, end - begin, slot, TSR_MODE_WRITE});
          written[index].add(begin, end);
        }
      if (b.mode != TSR_MODE_READ) written[index].add(b.offset, b.offset + b.num_elements);
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

void bind_workspaces(Program& program, const DescribeCollective& describe) {
  for (Action& action : program.actions) {
    if (!is_collective(action.kind)) continue;
    const int num_members = program.mesh->num_members(program.groups[action.group]);
    const uint64_t num_bytes = num_members < 2 ? 0 : describe(program, action, num_members);
    if (num_bytes == 0 || action.bindings.empty()) continue;
    const std::string about =
        std::string(action_name(action.kind)) + " " + program.buffer(action.bindings[0].buffer).name;
    const uint64_t id =
        program.add_buffer({0, about, TSR_BUFFER_WORKSPACE, memory_of(program, action), TSR_U8, false, num_bytes});
    action.bindings.push_back({id, 0, num_bytes, TSR_SLOT(TSR_ROLE_WORKSPACE, 0), TSR_MODE_WRITE});
  }
}

}  // namespace tessera::host
