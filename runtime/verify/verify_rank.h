// The checks of verify_rank (verify.h), in the order in which they run; each relies on those before it, and each is
// implemented in the file of its name: verify_tables.cc, verify_actions.cc, verify_slots.cc, verify_collectives.cc,
// verify_written.cc, verify_addresses.cc.
#pragma once

#include "memory/memory_plan.h"
#include "program/program.h"
#include "verify/diagnostics.h"
#include "verify/verify.h"

namespace tessera::host {

/// verify_rank in two halves. The first is what the memory planner relies on. The second runs when memory is planned
/// and only waits have been added.
Diagnostics verify_form(const Program& program);
Diagnostics verify_waits(const Program& program, const MemoryPlan* memory);

/// Tables: ids ascend, ranges and indices exist, homes lie inside their buffers.
void verify_tables(const Program& program, DiagnosticList& diagnostics);
/// Actions: known kinds, bindings inside buffers, streams and groups that fit the kind, dependencies on earlier
/// actions.
void verify_actions(const Program& program, DiagnosticList& diagnostics);
/// Slots, modes and element counts fit the kind of each action that is not a collective.
void verify_slots(const Program& program, DiagnosticList& diagnostics);
/// The same for collectives and messages, and roots, peers, counts and reductions.
void verify_collectives(const Program& program, DiagnosticList& diagnostics);
/// No read of an unwritten transient range, no second write of a written one.
void verify_written(const Program& program, DiagnosticList& diagnostics);
/// Accesses to one address are ordered, and every read finds what was written to its own buffer. Null memory: disjoint
/// buffers.
void verify_addresses(const Program& program, const MemoryPlan* memory, DiagnosticList& diagnostics);

}  // namespace tessera::host
