// All checks of one rank's program, from form to order, each with an example of what it finds:
//
//     verify_tables         the m of home h.0 has 6656 elements, the home 13312
//     verify_actions        rank 0 #42 ... is for group dp, but its stream is for another axis
//     verify_slots          rank 0 #5 ... binds o0 (h.0.attended) with mode read; it must be write
//     verify_collectives    rank 0 #4 ... binds 6656 elements as its slice, which has 6624 of 13248
//     verify_written        rank 0 #7 ... reads gathered h.0[0:32] through p0 ..., which nothing has written
//     verify_addresses      rank 0 #43 ... does not wait for rank 0 #42 ..., and both touch gradient bucket 0 of dp
//
// All but the last run before memory is planned, since the planner relies on valid bindings; the last one runs after
// it, by address. Invariant: verify_written and verify_addresses see only well-formed programs.
//
// Cost: bindings times the rules for slots, and for the last two up to the pieces that buffers and arena fall into.

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
