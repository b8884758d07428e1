// The checks that verify_rank is made of, in the order in which they run; each relies on those before it.
#pragma once

#include "memory/memory.h"
#include "program/program.h"
#include "verify/findings.h"

namespace tessera::host {

/// Tables: ids ascend, ranges and indices exist, homes lie inside their buffers.
void verify_tables(const Program& program, FindingList& findings);
/// Actions as such: known kinds, bindings inside buffers, streams and groups that fit the kind, dependencies backwards.
void verify_actions(const Program& program, FindingList& findings);
/// Slots, modes and element counts fit the kind of each action that is not a collective.
void verify_slots(const Program& program, FindingList& findings);
/// The same for collectives and messages; roots, peers, counts and reductions.
void verify_collectives(const Program& program, FindingList& findings);
/// No read of an unwritten transient range, no second write of a written one.
void verify_written(const Program& program, FindingList& findings);
/// Accesses to one address are ordered, and every read finds what its own buffer wrote. Null memory: disjoint buffers.
void verify_addresses(const Program& program, const MemoryPlan* memory, FindingList& findings);

}  // namespace tessera::host
