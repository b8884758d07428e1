#include "program/verify_parts.h"

namespace tessera {

// What an action does can be asked only of a program that is well formed, and whether it is ordered well only of one
// whose actions make sense. So the first stage with findings is the last.
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

}  // namespace tessera
