// Checks the programs of a whole job, one rank of each class: init, then each step, then eval. With examples:
//
//     each rank       verify_common       rank 0: its step program has max_norm 0.005, where the job has 0.01
//                     verify_described    ... binds s7, which the device does not list for its op
//     between ranks   match_ranks         collectives and messages that do not match
//                     verify_order        ranks that wait for one another in a cycle
//     the model       ModelVerifier       segment wte mb=1: nothing runs its backward for its parameters, which ...
//
// Invariant: a program whose ranks do not fit one another is not held against the model: it cannot be walked. Cost: a
// walk of one rank of each class, or of all ranks of a small job; for 1,024 ranks 0.05 s under ddp, 1.2 s under fsdp
// (docs/performance.md).

#include <map>

#include "base/concat.h"
#include "base/progress.h"
#include "compile/compile.h"
#include "compile/compile_homes.h"
#include "verify/collective_matching.h"
#include "verify/model/verify_described.h"
#include "verify/model/verify_model.h"
#include "verify/verify_common.h"

namespace tessera::host {
namespace {

/// Only a walk of the rank itself checks its slice of a reduce_scatter against its homes. Up to so many ranks each is
/// walked, unless an offload policy has cut their homes; beyond, one of each class. A fault that is found then is
/// checked again by fault_of(), with every rank's own program.
constexpr int kMaxRanksWalked = 16;

}  // namespace

Diagnostics verify_job(const CompileInput& input, const JobPrograms& job) {
  Diagnostics diagnostics;
  Progress progress(input.log, concat("checking ", input.mesh.num_ranks(), " ranks against one another"));
  HomesCompiler homes(input);
  ModelVerifier model(input.mesh, job.classes, [&](int rank) { return homes.compile(input.mesh.coordinates(rank)); });
  const bool walks_all = input.mesh.num_ranks() <= kMaxRanksWalked && input.policies.empty();
  const size_t num_programs = job.of(0).all().size();
  for (const auto& [rank, all] : job.by_representative)
    for (const Program* program : all.all())
      model.note_calls(*program);
  for (size_t i = 0; i < num_programs; ++i) {
    progress.at(i, num_programs);
    std::map<int, const Program*> programs;
    for (const auto& [rank, all] : job.by_representative)
      programs.emplace(rank, all.all()[i]);
    const ProgramOf program = [&](int r) -> const Program& { return *programs.at(job.classes.representative(r)); };
    DiagnosticList list, kernels;
    for (const auto& [rank, own] : programs) {
      const RankPrograms& of_rank = job.by_representative.at(rank);
      verify_common(*own, of_rank.init, of_rank.first(), job.of(0).init, input.shape, !input.policies.empty(), list);
      verify_described(*own, input.describe_op, kernels);
    }
    Diagnostics found = list.take();
    if (found.empty()) {
      const RankClasses matched = matched_ranks(input.mesh, job.classes, program);
      const MatchedOps ops = match_ranks(input.mesh, matched, program, list);
      found = list.empty() ? verify_order(program, ops) : list.take();
      if (found.empty() && walks_all) {
        const RankClasses all(input.mesh);
        const MatchedOps of_all = match_ranks(input.mesh, all, program, list);
        found = list.empty() ? model.check(program, all, of_all) : list.take();
      } else if (found.empty()) {
        found = model.check(program, matched, ops);
      }
    }
    for (const Diagnostics& more : {kernels.take(), found})
      diagnostics.insert(diagnostics.end(), more.begin(), more.end());
  }
  return diagnostics;
}

}  // namespace tessera::host
