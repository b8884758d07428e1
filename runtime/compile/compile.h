// Compiles model, mesh and strategies to the programs of a rank (the pipeline is in compile.cc). Pure: any process can
// compile any rank's programs. verify_job and verify_represented are implemented in verify_job.cc.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compile/compile_input.h"
#include "compile/rank_programs.h"
#include "program/rank_classes.h"
#include "verify/verify.h"

namespace tessera::host {

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
