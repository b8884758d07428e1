// Completes a program after the last pass. In the program of ddp (tests/golden/programs/two-blocks-ddp.txt):
//
//     20    compute             loss loss mb=0  ...  a %16 x:loss  w %60 di:ln_f.out  w %61+28928:3072 g:weight  ...
//     21    comm.world.scalars  all_reduce group=world reduce=sum  a %16 dst  # 20            inserted: the loss
//     ...
//     40    compute             backward wte mb=0  ...  a %61+28928:3072 g:weight
//     ...
//     71    comm.world.scalars  all_reduce group=world reduce=sum  a %17 dst  # 70            inserted: squares
//     72    compute             clip  r %17 x:squares  w %18 x:clip  a %19 x:step  # 71
//
// In line 20 the gradient of wte is written, in line 40 it is added to: both were bound with *add* until here.
// All ranks of a group insert the same collectives, whether they own anything or not: only the layout decides, which is
// equal on all ranks. Cost: linear in the bindings, and what completion.cc costs.

#include "passes/finalize.h"

#include <algorithm>

#include "base/concat.h"
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
      if (b.mode != TSR_MODE_READ && overlap(b, range)) return static_cast<ptrdiff_t>(i) + 1;
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
          throw Error(TSR_E_INVALID_ARGUMENT,
                      concat(action_name(action.kind), " on ", program.streams[action.stream].name, " adds to ",
                             buffer.name, "[", b.offset, ":", b.offset + b.num_elements,
                             "], which is only partly written; ZERO the whole first: of pads the host zeroes those of "
                             "homes and gradients alone"));
        b.mode = TSR_MODE_WRITE;
      }
      set.add(b.offset, b.offset + b.num_elements);
    }
  }
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

}  // namespace tessera::host
