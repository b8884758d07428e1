// All checks of one rank's program, from form to order: tables, actions, slots and collectives, then what is written
// and which actions wait for which. A program has to pass once before memory is planned (the planner relies on valid
// bindings) and again afterwards, by address.

#include "verify/verify_rank.h"

namespace tessera::host {

// Each stage relies on the ones before it (bindings inside buffers, slots of the right kind), so the first stage with
// diagnostics ends the check.
Diagnostics verify_rank(const Program& program, const MemoryPlan* memory) {
  DiagnosticList diagnostics;
  verify_tables(program, diagnostics);
  if (diagnostics.empty()) verify_actions(program, diagnostics);
  if (diagnostics.empty()) {
    verify_slots(program, diagnostics);
    verify_collectives(program, diagnostics);
  }
  if (diagnostics.empty()) {
    verify_written(program, diagnostics);
    verify_addresses(program, memory, diagnostics);
  }
  return diagnostics.take();
}

}  // namespace tessera::host
