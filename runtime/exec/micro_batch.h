// The inputs of a step.
#pragma once

#include <span>
#include <vector>

#include "data/dataset.h"
#include "program/program.h"

namespace tessera::host {

/// One micro-batch of this rank: its inputs, in the order of Model::inputs(). For a GPT-2: tokens and targets
/// [batch * seq]. Floats are rounded to an input's 16-bit dtype.
using MicroBatch = std::vector<InputValues>;

/// The values of one input buffer. Borrows.
const InputValues& input_values(const InputBuffer& input, std::span<const MicroBatch> micro_batches);

/// Throws INVALID_ARGUMENT unless there are as many micro-batches, inputs and elements as the program binds, of its
/// dtypes.
void check_batches(const Program& program, std::span<const MicroBatch> micro_batches);

}  // namespace tessera::host
