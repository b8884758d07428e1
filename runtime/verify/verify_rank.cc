// All checks of one rank's program, from form to order: tables, actions, slots and collectives, then what is written
// and which actions wait for which. A program has to pass once before memory is planned (the planner relies on valid
// bindings) and once after, by address.

#include "verify/verify_parts.h"

namespace tessera::host {

// Each stage relies on the ones before it (bindings inside buffers, slots of the right kind), so the first stage with
// findings ends the check.
Findings verify_rank(const Program& program, const MemoryPlan* memory) {
  FindingList findings;
  verify_tables(program, findings);
  if (findings.empty()) verify_actions(program, findings);
  if (findings.empty()) {
    verify_slots(program, findings);
    verify_collectives(program, findings);
  }
  if (findings.empty()) {
    verify_written(program, findings);
    verify_addresses(program, memory, findings);
  }
  return findings.take();
}

}  // namespace tessera::host
