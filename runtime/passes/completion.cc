// Sums the gradient of a parameter that several stages use, the tied embedding, over these stages. In the program of
// pipeline, whose stages 0 and 1 both have it:
//
//     67    comm.pp.completion  all_reduce group=pp{0,1} reduce=sum home=wte.weight  a %71 dst  w %114 w:0  # 66
//     68    compute             sum_squares home=wte.weight  r %71 src  a %11+0:20 x:squares  # 67
//
// It is inserted before the first reader, when all passes have run: sums over other axes are in place and read nothing,
// so they come first. A strategy that reads gradients of its axis asks for it earlier, by tsr_edit.complete. Cost: with
// stages a scan of the list for each home.

#include "passes/completion.h"

#include <span>

#include "tessera/error.hpp"

namespace tessera::host {
namespace {

/// The coordinates of a layer axis that hold a parameter, if they are several.
std::span<const int> stages_of(const Program& program, int parameter, int axis) {
  const LayoutEntry* split = entry_on(program, parameter, axis, TSR_HOME_GRADIENT);
  if (!split || split->kind != TSR_LAYOUT_REPLICATED || split->coordinates.size() < 2) return {};
  return split->coordinates;
}

/// Those of all its parameters.
std::span<const int> stages_of(const Program& program, const Home& home, int axis) {
  // Ask the unit, not the first piece: a rank whose slice is empty must plan the same collective.
  const auto stages = stages_of(program, program.model->units[home.unit].parameters.front(), axis);
  for (const tsr_piece& piece : home.pieces)
    if (!std::ranges::equal(stages, stages_of(program, piece.parameter, axis)))
      throw Error(TSR_E_INVALID_ARGUMENT,
                  "home " + home.name + " holds " + program.model->units[home.unit].name + " and " +
                      program.model->parameters[piece.parameter].name + ", which are on different ranks of axis " +
                      program.mesh->axes()[axis].name + "; the strategy must put them into different homes");
  return stages;
}

}  // namespace

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

Binding gradient_of(const Home& home) {
  const HomeRole& gradient = home.roles[TSR_HOME_GRADIENT];
  return {gradient.buffer, gradient.offset, gradient.num_elements, 0, 0};
}

std::vector<Action> completions_of(Program& program, const Home& home) {
  std::vector<Action> sums;
  const auto& axes = program.mesh->axes();
  for (int axis = 0; axis < static_cast<int>(axes.size()); ++axis) {
    if (axes[axis].splits != TSR_SPLITS_LAYERS) continue;
    const auto stages = stages_of(program, home, axis);
    if (stages.empty()) continue;
    sums.push_back(sum_in_place(program, Group{axis, {stages.begin(), stages.end()}}, "completion", gradient_of(home)));
    sums.back().home = home.id;
  }
  return sums;
}

bool is_completion(const Program& program, const Action& action, const Home& home) {
  if (action.kind != TSR_ACTION_ALL_REDUCE || action.home != home.id) return false;
  const int axis = program.groups[action.group].axis;
  return axis != TSR_WORLD_AXIS && program.mesh->axes()[axis].splits == TSR_SPLITS_LAYERS;
}

// Not after the last writer: another stage may need a message from this one to complete its own part of the sum.
void complete_gradients(Program& program) {
  if (std::ranges::count(program.mesh->axes(), TSR_SPLITS_LAYERS, &Axis::splits) == 0) return;
  for (const Home& home : program.homes) {
    const auto reader = first_reader(program.actions, gradient_of(home));
    if (reader == program.actions.end()) continue;
    const auto is_there = [&](const Action& action) { return is_completion(program, action, home); };
    if (std::ranges::any_of(program.actions, is_there)) continue;
    const std::vector<Action> sums = completions_of(program, home);
    program.actions.insert(reader, sums.begin(), sums.end());
  }
}

}  // namespace tessera::host
