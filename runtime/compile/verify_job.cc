// Checks the programs of a whole job, one rank of each class: init, then each step, then eval. With examples:
//
//     each rank       verify_common       rank 0: its step program has max_norm 0.005, where the job has 0.01
//                     verify_described    ... binds s7, which the device does not list for its op
//     between ranks   verify_members      a rank that takes no part in a group's communicator
//                     match_ranks         collectives and messages that do not match
//                     verify_order        ranks that wait for one another in a cycle
//     the model       ModelVerifier       segment wte mb=1: nothing runs its backward for its parameters, which ...
//     the others      verify_represented  rank 1 has another program than rank 0 (line 58 is ...), whose programs ...
//
// Invariant: a program whose ranks do not fit one another is not held against the model: it cannot be walked. Cost: a
// walk of one rank of each class, or of all ranks of a small job; for 1,024 ranks 0.5 s under ddp, 1.2 s under fsdp
// (docs/performance.md).

#include <algorithm>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <thread>

#include "base/concat.h"
#include "base/progress.h"
#include "compile/compile.h"
#include "compile/compile_homes.h"
#include "compile/homes_fingerprint.h"
#include "compile/lower.h"
#include "program/text_difference.h"
#include "verify/collective_matching.h"
#include "verify/model/verify_described.h"
#include "verify/model/verify_model.h"
#include "verify/verify_common.h"

namespace tessera::host {
namespace {

/// Only a walk of the rank itself shows whether what it gets is its own. Up to so many ranks each is walked, and more
/// if they have no more actions together than `max_actions_walked`; beyond, one of each class, and its second and last
/// rank on each axis as witnesses. A fault that is found then is checked again by fault_of(), with every rank's own
/// program; so are small jobs whose homes an offload policy has cut.
constexpr int kMaxRanksWalked = 16;

/// Actions of all ranks, times ranks: a gather takes every rank's slice on every rank. Walked in two seconds.
constexpr size_t kMaxSlicesTaken = 20'000'000;

/// Of all ranks together: they are lowered in half a second.
constexpr size_t kMaxActionsLowered = 100'000;

size_t actions_of_all_ranks(const CompileInput& input, const JobPrograms& job) {
  size_t num_actions = 0;
  for (const Program* program : job.of(0).all())
    num_actions += program->actions.size();
  return num_actions * static_cast<size_t>(input.mesh.num_ranks());
}

bool are_few_slices_taken(const CompileInput& input, const JobPrograms& job) {
  return actions_of_all_ranks(input, job) <= kMaxSlicesTaken / static_cast<size_t>(input.mesh.num_ranks());
}

RankClasses walked_ranks(const CompileInput& input, const JobPrograms& job, size_t max_actions_walked) {
  const bool is_small = input.mesh.num_ranks() <= kMaxRanksWalked ||
                        (actions_of_all_ranks(input, job) <= max_actions_walked && are_few_slices_taken(input, job));
  return is_small ? RankClasses(input.mesh) : RankClasses::with_witnesses(input.mesh, job.classes);
}

/// What ranks own. One that was lowered itself has the homes of those with equal programs (digest_of), so these are
/// compiled once; for the others theirs show what was only declared.
class JobHomes {
 public:
  JobHomes(const CompileInput& input, const RankClasses& classes)
      : mesh_(input.mesh), classes_(classes), declared_(input.mesh, input.strategies), compiler_(input) {}

  RankHomes of(int rank) {
    const Coordinates coordinates = mesh_.coordinates(rank);
    if (declared_.representative(rank) != rank) return compiler_.compile(coordinates);
    const int equal = classes_.representative(rank);
    auto found = of_lowered_.find(equal);
    if (found == of_lowered_.end())
      found = of_lowered_.emplace(equal, compiler_.compile(mesh_.coordinates(equal))).first;
    RankHomes homes = found->second;
    homes.init.coordinates = coordinates;
    return homes;
  }

 private:
  const Mesh& mesh_;
  const RankClasses& classes_;
  const RankClasses declared_;
  HomesCompiler compiler_;
  std::map<int, RankHomes> of_lowered_;  // by representative
};

/// What is found about one program of all ranks before it is held against the model, and what that needs.
struct Matching {
  std::map<int, const Program*> programs;  ///< by representative
  Diagnostics kernels;                     ///< what the device does not have
  Diagnostics mistakes;                    ///< with any, the program cannot be walked
  RankClasses walked;
  MatchedOps ops;  ///< of the ranks walked
};

Matching match(const CompileInput& input, const JobPrograms& job, size_t max_actions_walked, size_t index) {
  Matching result{{}, {}, {}, job.classes, {}};
  DiagnosticList mistakes, kernels;
  for (const auto& [rank, all] : job.by_representative) {
    const Program& own = *all.all()[index];
    result.programs.emplace(rank, &own);
    verify_common(own, all.init, all.first(), job.of(0).init, input.step_config, !input.policies.empty(), mistakes);
    verify_described(own, input.describe_op, kernels);
  }
  result.kernels = kernels.take();
  result.mistakes = mistakes.take();
  if (!result.mistakes.empty()) return result;
  const ProgramOf program = [&](int r) -> const Program& { return *result.programs.at(job.classes.representative(r)); };
  result.walked = matched_ranks(input.mesh, job.classes, program);
  result.ops = match_ranks(input.mesh, result.walked, program, mistakes);
  result.mistakes = mistakes.empty() ? verify_order(program, result.ops) : mistakes.take();
  if (result.mistakes.empty() && input.policies.empty()) {
    result.walked = walked_ranks(input, job, max_actions_walked);
    result.ops = match_ranks(input.mesh, result.walked, program, mistakes);
    result.mistakes = mistakes.take();
  }
  return result;
}

/// What a rank has otherwise than the one that is planned for it; empty: nothing.
std::string difference(const LoweredPrograms& own, int rank, const LoweredPrograms& planned, int representative) {
  const std::string text = text_of(own.all()), text_planned = text_of(planned.all());
  if (text != text_planned)
    return concat(
        "another program than rank ", representative, " (",
        first_difference(text, text_planned).text(concat("on rank ", rank), concat("on rank ", representative)), ")");
  if (fingerprint_of_homes(own.init).layout != fingerprint_of_homes(planned.init).layout)
    return concat("another layout than rank ", representative);
  if (fingerprint_of_places(own.all()) != fingerprint_of_places(planned.all()))
    return concat("its homes (their roles, buffers or lengths) in other places than rank ", representative);
  return "";
}

}  // namespace

// Where ranks differ, the next programs are matched while one is walked; the walks are one after another, since a step
// is held against what init has left. As many are begun as there are cores, so that what is matched does not pile up.
// Of plugins, matching only calls `describe`, which may be from any thread. A job of equal ranks takes no time worth a
// thread.
Diagnostics verify_job(const CompileInput& input, const JobPrograms& job, size_t max_actions_walked) {
  Diagnostics diagnostics;
  const int num_ranks = input.mesh.num_ranks();
  Progress progress(input.log, num_ranks == 1 ? "checking the rank against the model"
                                              : concat("checking ", num_ranks, " ranks against one another"));
  JobHomes homes(input, job.classes);
  ModelVerifier model(input.mesh, job.classes, [&](int rank) { return homes.of(rank); });
  const size_t num_programs = job.of(0).all().size();
  diagnostics = verify_members(input.mesh, job.classes, [&](int rank) { return job.of(rank).all(); });
  for (const auto& [rank, all] : job.by_representative)
    for (const Program* program : all.all())
      model.note_calls(*program);
  const auto launch =
      job.by_representative.size() > 1 ? std::launch::async | std::launch::deferred : std::launch::deferred;
  const size_t num_ahead = std::max(1u, std::thread::hardware_concurrency());
  std::deque<std::future<Matching>> matchings;
  size_t num_begun = 0;
  for (size_t i = 0; i < num_programs; ++i) {
    progress.at(i, num_programs);
    for (; num_begun < num_programs && matchings.size() < num_ahead; ++num_begun)
      matchings.push_back(std::async(launch, match, std::cref(input), std::cref(job), max_actions_walked, num_begun));
    const Matching matching = matchings.front().get();
    matchings.pop_front();
    const ProgramOf program = [&](int r) -> const Program& {
      return *matching.programs.at(job.classes.representative(r));
    };
    const Diagnostics found =
        matching.mistakes.empty() ? model.check(program, matching.walked, matching.ops) : matching.mistakes;
    for (const Diagnostics& more : {matching.kernels, found})
      diagnostics.insert(diagnostics.end(), more.begin(), more.end());
  }
  return diagnostics;
}

bool can_lower_all(const CompileInput& input, const JobPrograms& job) {
  return actions_of_all_ranks(input, job) <= kMaxActionsLowered;
}

bool can_walk_all(const CompileInput& input, const JobPrograms& job) {
  return can_lower_all(input, job) && are_few_slices_taken(input, job);
}

Diagnostics verify_represented(const CompileInput& input, const JobPrograms& job) {
  if (!can_lower_all(input, job)) return {};
  DiagnosticList diagnostics;
  Lowering lowering(input);
  for (const auto& [representative, ranks] : job.classes.members()) {
    std::optional<LoweredPrograms> planned;
    for (const int rank : ranks) {
      if (rank == representative) continue;
      if (!planned) planned = lowering.lower(input.mesh.coordinates(representative));
      const LoweredPrograms own = lowering.lower(input.mesh.coordinates(rank));
      for (const Program* program : own.all())
        verify_pieces(*program, own.init, diagnostics);
      if (const std::string other = difference(own, rank, *planned, representative); !other.empty())
        diagnostics.add(concat("rank ", rank, " has ", other, ", whose programs are to be its own: a strategy is not ",
                               "pure, or hides that it depends on its coordinate (depends_on_coordinate)"));
    }
  }
  return diagnostics.take();
}

}  // namespace tessera::host
