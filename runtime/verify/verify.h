// What is proved of programs before step 1. Planning a job takes these in parts: compile.cc verifies a rank's form
// before its memory is planned and its waits after it (verify_rank.h), and verify_job.cc uses the matching of
// verify_ranks (collective_matching.h) for the check against the model too (model/verify_model.h). Each function
// returns diagnostics, none for a correct program; a diagnostic is one sentence that names the actions ("rank 3 #41
// comm.dp.gather all_gather h.2") and what is wrong. Implemented in verify_rank.cc, verify_ranks.cc and
// placement/verify_placement.cc.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "memory/memory_plan.h"
#include "program/program.h"

namespace tessera::host {

class RankClasses;

using Diagnostics = std::vector<std::string>;

/// On one rank: bindings lie inside their buffers; every transient range is written once, before it is added to or
/// read; kinds, streams, groups and slots fit one another; every two conflicting accesses to one *address* are ordered
/// (races, use after reuse, planner errors). Independent of derive_dependencies and plan_memory. Without `memory`,
/// buffers are taken as disjoint.
Diagnostics verify_rank(const Program& program, const MemoryPlan* memory = nullptr);

/// Rank r's program.
using ProgramOf = std::function<const Program&(int rank)>;
/// All programs of rank r.
using ProgramsOf = std::function<std::vector<const Program*>(int rank)>;

/// Across ranks, whose programs have passed verify_rank: on each (group, stream) the k-th collectives match in kind,
/// root, dtype, counts and reduction; the k-th send and receive of a pair match in size, dtype and tag; groups that
/// share ranks issue in one relative order; the wait-for graph of all ranks has no cycle (printed as a chain of rank,
/// stream and action). One rank of each class is checked where that proves it for all.
Diagnostics verify_ranks(const Mesh& mesh, const RankClasses& classes, const ProgramOf& program);

/// Across the programs of each class: every member of a group that has an action on a stream has one there, in one of
/// its programs. A communicator is made by all of its members at the start; one that does not take part would hang
/// them.
Diagnostics verify_members(const Mesh& mesh, const RankClasses& classes, const ProgramsOf& programs);

/// Placement: on each axis every range is replicated, partial, a shard, varying or zero; every kind of action has a
/// rule; each home must have the same placement before and after the step. Finds what all ranks forgot alike.
Diagnostics verify_placement(const Program& program);

}  // namespace tessera::host
