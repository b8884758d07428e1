// The buffers of a base program that do not belong to one action: parameters, gradients, optimizer state, scalars and
// inputs, and the homes that say which parameter is where in them.
#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"

namespace tessera::host {

/// Ids of buffers; 0: there is none.
struct StateBuffers {
  std::vector<uint64_t> values, frozen, m, v, gradients;     // by unit
  std::vector<std::vector<uint64_t>> micro_batch_gradients;  // [mb][unit], with reduce-every=micro-batch
  std::vector<std::vector<uint64_t>> inputs;                 // [mb][value]
  uint64_t loss = 0, squares = 0, clip = 0, step = 0, lr = 0, loss_scale = 0, correct = 0;
};

/// Adds the homes and all buffers that outlive a program.
StateBuffers add_persistent_buffers(Program& program);

/// Adds the gradients' buffers, and their role to the homes.
void add_gradient_buffers(Program& program, StateBuffers& state);

/// Where a parameter's value is: in `buffers` (by unit), or, if it is frozen, in its unit's frozen part.
HomeRole place_of_value(const Model& model, const StateBuffers& state, const Parameter& parameter,
                        const std::vector<uint64_t>& buffers);

}  // namespace tessera::host
