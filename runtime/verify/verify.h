// What is proved of programs before step 1. Each function returns diagnostics, empty when all is well; a diagnostic is
// one sentence that names the actions ("rank 3 #41 comm.dp.gather all_gather h.2") and says what is wrong.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "memory/memory_plan.h"
#include "program/program.h"

namespace tessera::host {

class RankClasses;

using Diagnostics = std::vector<std::string>;

/// On a rank: bindings lie inside their buffers; no read of an unwritten transient range, every transient range is
/// written once before it is added to or read; kinds, streams, groups and slots fit one another; every two conflicting
/// accesses to one *address* are ordered (races, use after reuse, planner errors). Independent of derive_dependencies
/// and plan_memory. Without `memory`, buffers are taken as disjoint.
Diagnostics verify_rank(const Program& program, const MemoryPlan* memory = nullptr);

/// Rank r's program.
using ProgramOf = std::function<const Program&(int rank)>;

/// Across ranks, whose programs have passed verify_rank: per (group, stream) the k-th collective matches in kind, root,
/// dtype, counts, reduction; the k-th send and receive of a pair match in size and tag; groups that share ranks issue
/// in one relative order; one graph of all ranks with one node per meeting has no cycle (printed as a chain of rank,
/// action, stream). Ranks of one class share a program, and are looked at once where that says it for all.
Diagnostics verify_ranks(const Mesh& mesh, const RankClasses& classes, const ProgramOf& program);

/// Placement: per axis every range is replicated, partial (the sum is meant), split, different or zero; every action
/// kind has a rule; each home must leave the step as it entered. Finds what all ranks forgot alike.
Diagnostics verify_placement(const Program& program);

}  // namespace tessera::host
