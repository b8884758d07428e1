// From model, mesh and strategies to one rank's programs: layouts, base, passes, finish, staging, dependencies, memory,
// checks. Pure: any process can compile any rank's programs.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/log.h"
#include "compile/pass_runner.h"
#include "memory/memory_plan.h"
#include "passes/build_program.h"
#include "passes/finalize.h"
#include "passes/host_staging.h"
#include "program/rank_classes.h"
#include "verify/verify.h"

namespace tessera::host {

/// Everything a compilation depends on. Borrows; outlives what is compiled.
struct CompileInput {
  const Model& model;
  const Mesh& mesh;
  StepConfig shape;
  std::span<const StrategyOnAxis> strategies;  ///< one per axis, in the mesh's order
  DescribeOp describe_op;
  DescribeCollective describe_collective;
  uint64_t guard_bytes = 0;      ///< left free after every buffer (debug mode)
  StagedKinds staged = {};       ///< what works in the host's memory, beside a device with memory of its own
  bool evaluates = false;        ///< compile a program for evaluation too
  Log log = Log(LogLevel::off);  ///< how far planning is that takes long
};

/// One rank's programs over the same persistent buffers: init, the step's variants, and eval where evaluation was asked
/// for.
struct RankPrograms {
  std::shared_ptr<const Model> model;  ///< the rank's local model, which the programs borrow
  Program init;
  std::vector<Program> steps;
  std::optional<Program> eval;
  std::vector<MemoryPlan> memory;  ///< of all(), in its order

  std::vector<const Program*> all() const;
  /// Bytes of the arena of one memory that all programs fit into.
  uint64_t arena_bytes(uint32_t memory_kind) const;
};

/// Compiles and checks (verify_rank, verify_placement) the programs of the rank at `coordinates`. Throws
/// INVALID_ARGUMENT with the diagnostics when a program is wrong, RESOURCE_EXHAUSTED when there is not enough memory to
/// plan it.
RankPrograms compile_rank(const CompileInput& input, const Coordinates& coordinates);

/// The order in which passes run: by role, then within split of storage those that shard before those that replicate,
/// then innermost axis first.
std::vector<StrategyOnAxis> pass_order(std::span<const StrategyOnAxis> strategies);

/// The programs of a whole job: those of one rank of each class.
struct JobPrograms {
  RankClasses classes;
  std::map<int, RankPrograms> by_representative;

  const RankPrograms& of(int rank) const { return by_representative.at(classes.representative(rank)); }
};

JobPrograms compile_job(const CompileInput& input);
/// What is wrong between the ranks: verify_ranks, for each program.
Diagnostics verify_job(const CompileInput& input, const JobPrograms& job);

}  // namespace tessera::host
