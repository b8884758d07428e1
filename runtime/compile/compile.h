// Compiles model, mesh and strategies to the programs of a rank (the pipeline is in compile.cc). Pure: any process can
// compile any rank's programs.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/log.h"
#include "compile/offload_runner.h"
#include "compile/pass_runner.h"
#include "memory/memory_plan.h"
#include "passes/build_program.h"
#include "passes/finalize.h"
#include "passes/host_staging.h"
#include "program/rank_classes.h"
#include "verify/verify.h"

namespace tessera::host {

/// Everything that a compilation depends on. Borrows; outlives the result.
struct CompileInput {
  const Model& model;
  const Mesh& mesh;
  StepConfig shape;
  std::span<const StrategyOnAxis> strategies;  ///< one per axis, in the mesh's order
  DescribeOp describe_op;
  DescribeCollective describe_collective;
  uint64_t guard_bytes = 0;      ///< left free after every buffer (debug mode)
  StagedKinds staged = {};       ///< actions that work in the host's memory, with a device that has its own
  bool evaluates = false;        ///< compile a program for evaluation too
  Log log = Log(LogLevel::off);  ///< progress of planning that takes long
  std::span<const OffloadPolicy> policies = {};  ///< in the order in which they are asked
  OffloadLimits offload_limits = {};
  uint64_t chunk_bytes = 16 << 20;  ///< of float32 values, where a policy cuts homes
  bool trains = true;               ///< compile steps; false: `evaluates` is true
};

/// One rank's programs over the same persistent buffers: init, the step's variants if it trains, and eval if requested.
struct RankPrograms {
  std::shared_ptr<const Model> model;  ///< the rank's local model, which the programs borrow
  Program init;
  std::vector<Program> steps;
  std::optional<Program> eval;
  std::vector<MemoryPlan> memory;  ///< in the order of all()

  std::vector<const Program*> all() const;
  /// The first after init: a step, or eval where there are none.
  const Program& first() const { return steps.empty() ? *eval : steps[0]; }
  /// Bytes of the arena in one memory that holds every program.
  uint64_t arena_bytes(uint32_t memory_kind) const;
};

/// Compiles and checks (verify_rank, verify_placement) the programs of the rank at `coordinates`. Throws INTERNAL with
/// the diagnostics when a pass has made a wrong program, RESOURCE_EXHAUSTED when there is not enough memory to plan it.
RankPrograms compile_rank(const CompileInput& input, const Coordinates& coordinates);

/// The order in which passes run: by role, then strategies that shard storage before those that replicate, then
/// innermost axis first.
std::vector<StrategyOnAxis> pass_order(std::span<const StrategyOnAxis> strategies);

/// The programs of a whole job: those of one rank of each class.
struct JobPrograms {
  RankClasses classes;
  std::map<int, RankPrograms> by_representative;

  const RankPrograms& of(int rank) const { return by_representative.at(classes.representative(rank)); }
};

JobPrograms compile_job(const CompileInput& input);
/// Checks the ranks against one another: verify_ranks, for each program.
Diagnostics verify_job(const CompileInput& input, const JobPrograms& job);

}  // namespace tessera::host
