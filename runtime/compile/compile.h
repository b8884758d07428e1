// Compiles model, mesh and strategies to the programs of a rank (the pipeline is in compile.cc). Pure: any process can
// compile any rank's programs. verify_job and verify_represented are implemented in verify_job.cc.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compile/compile_input.h"
#include "compile/homes_fingerprint.h"
#include "memory/memory_plan.h"
#include "program/rank_classes.h"
#include "verify/verify.h"

namespace tessera::host {

/// One rank's programs over the same persistent buffers: init, the step's variants if it trains, and eval if requested.
struct RankPrograms {
  std::shared_ptr<const Model> model;  ///< the rank's local model, which the programs borrow
  Program init;
  std::vector<Program> steps;
  std::optional<Program> eval;
  std::vector<MemoryPlan> memory;  ///< in the order of all()
  HomesFingerprint homes;          ///< after the strategies' passes
  std::string places;              ///< of the homes of all programs (fingerprint_of_places), then

  std::vector<const Program*> all() const;
  /// The first after init: a step, or eval where there are none.
  const Program& first() const { return steps.empty() ? *eval : steps[0]; }
  /// The plan of first().
  const MemoryPlan& first_memory() const { return memory[1]; }
  /// Bytes of the arena in one memory that holds every program.
  uint64_t arena_bytes(uint32_t memory_kind) const;
};

/// Compiles and checks (as verify_rank and verify_placement do) the programs of the rank at `coordinates`. Throws
/// INTERNAL with the diagnostics when a pass has made a wrong program, RESOURCE_EXHAUSTED when there is not enough
/// memory to plan it.
RankPrograms compile_rank(const CompileInput& input, const Coordinates& coordinates);

/// The programs of a whole job: those of one rank of each class.
struct JobPrograms {
  RankClasses classes;
  std::map<int, RankPrograms> by_representative;

  const RankPrograms& of(int rank) const { return by_representative.at(classes.representative(rank)); }
};

/// Compiles and checks one rank of each class, as compile_rank does; the classes are those of equal programs. Throws
/// what it throws, and what strategies and policies refuse. Logs progress.
JobPrograms compile_job(const CompileInput& input);
/// Jobs with so many actions in all ranks together are walked rank by rank: a copy of a program takes a kilobyte for
/// each.
inline constexpr size_t kMaxActionsWalked = 200'000;
/// Checks the ranks against one another, as verify_ranks does, and each program against the model. [the caller's
/// thread; `describe` of the device is called from others too]
Diagnostics verify_job(const CompileInput& input, const JobPrograms& job,
                       size_t max_actions_walked = kMaxActionsWalked);
/// Whether the programs of all ranks are small enough together to be compiled one by one.
bool can_lower_all(const CompileInput& input, const JobPrograms& job);
/// Whether these can also be walked one by one.
bool can_walk_all(const CompileInput& input, const JobPrograms& job);
/// Checks that ranks that another one is compiled for have the homes, in all their programs, that are taken for theirs.
/// It lowers the programs of each, if it can. In a run each rank checks its own.
Diagnostics verify_represented(const CompileInput& input, const JobPrograms& job);

}  // namespace tessera::host
