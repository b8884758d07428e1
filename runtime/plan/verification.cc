// Counts what `plan --verify` has proved. Ranks of a class are counted by multiplication, and a collective once: each
// of its n members contributes 1/n.

#include "plan/verification.h"

#include <map>

#include "base/concat.h"
#include "base/progress.h"
#include "plan/advice/memory_advisor.h"
#include "plan/format.h"
#include "program/collective_operands.h"

namespace tessera::host {
namespace {

/// As many are compiled and walked in a few seconds.
constexpr int kMaxRanksChecked = 256;

/// Adds a program that `num_ranks` ranks run. `in_groups` counts the members of collectives, by size of their group.
void count(const Program& program, uint64_t num_ranks, VerificationSummary& summary,
           std::map<int, uint64_t>& in_groups) {
  summary.num_planned_actions += program.actions.size();
  summary.num_actions += num_ranks * program.actions.size();
  for (const Action& action : program.actions) {
    if (!is_collective(action.kind)) continue;
    if (!is_message(action.kind)) {
      in_groups[CollectiveOperands(program, action).num_ranks] += num_ranks;
      continue;
    }
    for (const Message& message : messages_of(action))
      if (!message.is_receive) summary.num_messages += num_ranks;
  }
}

/// Of each rank its own program, also where one of a class would do.
JobPrograms programs_of_each(const CompileInput& input) {
  JobPrograms all{RankClasses(input.mesh), {}};
  Progress progress(input.log, "compiling the program of each rank");
  for (int rank = 0; rank < input.mesh.num_ranks(); ++rank) {
    progress.at(static_cast<size_t>(rank), static_cast<size_t>(input.mesh.num_ranks()));
    all.by_representative.emplace(rank, compile_rank(input, input.mesh.coordinates(rank)));
  }
  return all;
}

/// One rank of each class is walked for all, so what the others have of a sum by slices is not known: a strategy that
/// gathers such slices is found at fault. So each rank is checked by itself before a fault is reported.
Diagnostics diagnostics_of(const CompileInput& input, const JobPrograms& programs) {
  const Diagnostics found = verify_job(input, programs);
  const int num_ranks = input.mesh.num_ranks();
  const bool are_all_known = programs.by_representative.size() == static_cast<size_t>(num_ranks);
  if (found.empty()) {
    const Diagnostics of_others = verify_represented(input, programs);
    const bool are_cut = !input.policies.empty() && !are_all_known && can_walk_all(input, programs);
    return of_others.empty() && are_cut ? verify_job(input, programs_of_each(input)) : of_others;
  }
  if (are_all_known || num_ranks > kMaxRanksChecked) return found;
  return verify_job(input, programs_of_each(input));
}

}  // namespace

// A fault of a strategy or of the host, not of the flags.
std::optional<Error> fault_of(const CompileInput& input, const JobPrograms& programs) {
  const Diagnostics diagnostics = diagnostics_of(input, programs);
  if (diagnostics.empty()) return std::nullopt;
  std::string text = concat("the ranks' programs under ", strategies_text(input.mesh, input.strategies),
                            " do not fit one another or the model:");
  for (const std::string& diagnostic : diagnostics)
    text += "\n  " + diagnostic;
  return Error(TSR_E_INTERNAL, text);
}

std::optional<Error> refusal_of(const Job& job, const CompileInput& input, const JobPrograms& programs) {
  if (auto fault = fault_of(input, programs)) return fault;
  // Last, as it plans other jobs when this one does not fit.
  if (const auto shortfall = find_shortfall(job, programs, input.log))
    return Error(TSR_E_RESOURCE_EXHAUSTED, shortfall_text(*shortfall));
  return std::nullopt;
}

VerificationSummary summarize_verification(const JobPlan& planned) {
  const JobPrograms& all = planned.programs();
  VerificationSummary summary;
  summary.num_ranks = planned.job().mesh.num_ranks();
  summary.num_classes = static_cast<int>(all.classes.members().size());
  std::map<int, uint64_t> in_groups;
  for (const auto& [representative, members] : all.classes.members()) {
    const RankPrograms& programs = all.of(representative);
    for (const Program* program : programs.all())
      count(*program, members.size(), summary, in_groups);
    summary.num_homes += members.size() * programs.first().homes.size();
  }
  for (const Program* program : all.of(0).all())
    summary.programs.push_back(program_name(*program));
  for (const auto& [num_members, num_shares] : in_groups)
    // Exact: all members of a group list the collective.
    summary.num_collectives += num_shares / static_cast<uint64_t>(num_members);
  summary.largest_rank = largest_rank(all);
  summary.arena_bytes = all.of(summary.largest_rank).arena_bytes(TSR_MEMORY_DEVICE);
  return summary;
}

std::string verification_text(const VerificationSummary& p) {
  std::string programs;
  for (const std::string& name : p.programs)
    programs += (programs.empty() ? "" : ", ") + name;
  return concat("proved for ", counted(p.num_ranks, "rank"), " (", counted(p.num_classes, "class"),
                " of equal programs), in ", programs, ":\n",
                "  on each rank  nothing is read before it is written, and accesses to one address are ordered (",
                p.num_planned_actions, p.num_classes == 1 ? " actions, " : " actions in all classes, ", p.num_actions,
                " on all ranks)\n",
                "  placement     every parameter has the same placement before and after the step, and gradients are "
                "summed before they are used (",
                counted(p.num_homes, "home"), ")\n", "  across ranks  ", p.num_collectives, " collectives and ",
                p.num_messages, " messages match in order, kind, elements and dtype; the waits form no cycle\n",
                "  the model     each segment runs once for each micro-batch and phase, on what the model names; each "
                "trained element is updated once, after one clip\n",
                "  memory        ", human_bytes(p.arena_bytes), " hold every program of rank ", p.largest_rank,
                ", which needs the most\n");
}

}  // namespace tessera::host
