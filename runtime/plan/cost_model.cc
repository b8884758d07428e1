// Estimates the time of an action by the roofline model (Williams, Waterman, Patterson 2009): the longer one of
// arithmetic at peak rate and of moving all operands once at peak bandwidth; for a collective, its bytes over one link.
// It has no latency and no efficiency factors. It is good enough to draw a step and to see which stream idles, not to
// predict a step's time.

#include "plan/cost_model.h"

#include <algorithm>

#include "plan/traffic.h"
#include "program/lower_op.h"
#include "tessera/op_table.hpp"

namespace tessera::host {
namespace {

double memory_bytes(const Program& program, const Action& action) {
  uint64_t num_bytes = 0;
  for (const Binding& binding : action.bindings)
    num_bytes += binding.num_elements * TSR_DTYPE_BYTES(program.buffer(binding.buffer).dtype);
  return static_cast<double>(num_bytes);
}

}  // namespace

double num_operations(const tsr_op& op) {
  const op::OpEntry* entry = op::find_op(op.kind);
  return entry ? entry->operations(op) : 0;
}

double estimated_seconds(const Program& program, const Action& action, const MachineRates& rates) {
  if (is_collective(action.kind)) return static_cast<double>(sent_bytes(program, action)) / rates.link_bytes;
  const double operations = is_compute(action.kind) ? num_operations(op_of(program, action)) : 0;
  return std::max(operations / rates.operations, memory_bytes(program, action) / rates.memory_bytes);
}

}  // namespace tessera::host
