// Completes gradients of parameters that several stages hold.
#pragma once

#include <algorithm>
#include <vector>

#include "program/program.h"

namespace tessera::host {

/// The sum over a group, in place, on that group's stream of that name, with the program's next id.
Action sum_in_place(Program& program, const Group& group, const char* lane, const Binding& what);

/// The first action of a list that reads the range, or the list's end.
template <class Actions>
auto first_reader(Actions& actions, const Binding& range) {
  return std::ranges::find_if(actions, [&range](const Action& action) {
    return std::ranges::any_of(action.bindings,
                               [&range](const Binding& b) { return b.mode == TSR_MODE_READ && overlap(b, range); });
  });
}

/// The range of a home's gradient; of buffer 0, which nothing reads: it has none.
Binding gradient_of(const Home& home);

/// The sums of a home's gradient over the stages that have its parameters, one for each axis of layers; most often
/// none. Throws INVALID_ARGUMENT when its parameters are on different stages.
std::vector<Action> completions_of(Program& program, const Home& home);

/// Whether the action is such a sum of that home.
bool is_completion(const Program& program, const Action& action, const Home& home);

/// Inserts those of all homes before the first reader of the gradient, but for homes for which a strategy has asked
/// already.
void complete_gradients(Program& program);

}  // namespace tessera::host
