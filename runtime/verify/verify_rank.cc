// All checks of one rank's program, from form to order: tables, actions, slots and collectives, then what is written
// and which actions wait for which. A program has to pass once before memory is planned (the planner relies on valid
// bindings) and again afterwards, by address.

#include "verify/verify_rank.h"

namespace tessera::host {

namespace {

// Each stage relies on the ones before it (bindings inside buffers, slots of the right kind), so the first stage with
// diagnostics ends the check.
bool is_well_formed(const Program& program, DiagnosticList& diagnostics) {
  verify_tables(program, diagnostics);
  if (diagnostics.empty()) verify_actions(program, diagnostics);
  if (diagnostics.empty()) {
    verify_slots(program, diagnostics);
    verify_collectives(program, diagnostics);
  }
  return diagnostics.empty();
}

}  // namespace

Diagnostics verify_form(const Program& program) {
  DiagnosticList diagnostics;
  if (is_well_formed(program, diagnostics)) verify_written(program, diagnostics);
  return diagnostics.take();
}

Diagnostics verify_waits(const Program& program, const MemoryPlan* memory) {
  DiagnosticList diagnostics;
  verify_addresses(program, memory, diagnostics);
  return diagnostics.take();
}

Diagnostics verify_rank(const Program& program, const MemoryPlan* memory) {
  DiagnosticList diagnostics;
  if (is_well_formed(program, diagnostics)) {
    verify_written(program, diagnostics);
    verify_addresses(program, memory, diagnostics);
  }
  return diagnostics.take();
}

}  // namespace tessera::host
