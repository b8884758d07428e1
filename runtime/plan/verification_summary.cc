// Counts what `plan --verify` has proved. Ranks of a class are counted by multiplication, and a collective once: each
// of its n members contributes a share of 1/n.

#include "plan/verification_summary.h"

#include <map>

#include "base/concat.h"
#include "plan/format.h"
#include "program/collective_operands.h"

namespace tessera::host {
namespace {

/// Adds a program that `num_ranks` run. Each rank counts its share of a collective: `in_groups` is by the group's size.
void count(const Program& program, uint64_t num_ranks, VerificationSummary& proof, std::map<int, uint64_t>& in_groups) {
  proof.num_planned_actions += program.actions.size();
  proof.num_actions += num_ranks * program.actions.size();
  for (const Action& action : program.actions) {
    if (!is_collective(action.kind)) continue;
    if (!is_message(action.kind)) {
      in_groups[CollectiveOperands(program, action).num_ranks] += num_ranks;
      continue;
    }
    for (const Message& message : messages_of(action))
      if (!message.is_receive) proof.num_messages += num_ranks;
  }
}

}  // namespace

VerificationSummary summarize_verification(const JobPlan& planned) {
  const JobPrograms& all = planned.programs();
  VerificationSummary proof;
  proof.num_ranks = planned.job().mesh.num_ranks();
  proof.num_classes = static_cast<int>(all.classes.members().size());
  std::map<int, uint64_t> in_groups;
  for (const auto& [representative, members] : all.classes.members()) {
    const RankPrograms& programs = all.of(representative);
    for (const Program* program : programs.all())
      count(*program, members.size(), proof, in_groups);
    proof.num_homes += members.size() * programs.steps[0].homes.size();
  }
  for (const Program* program : all.of(0).all())
    proof.programs.push_back(program_name(*program));
  for (const auto& [num_members, num_shares] : in_groups)
    // Exact: all members of a group list the collective.
    proof.num_collectives += num_shares / static_cast<uint64_t>(num_members);
  proof.largest_rank = largest_rank(all);
  proof.arena_bytes = all.of(proof.largest_rank).arena_bytes(TSR_MEMORY_DEVICE);
  return proof;
}

std::string verification_text(const VerificationSummary& p) {
  std::string programs;
  for (const std::string& name : p.programs)
    programs += (programs.empty() ? "" : ", ") + name;
  return concat("proved of ", p.num_ranks, p.num_ranks == 1 ? " rank (" : " ranks (", p.num_classes,
                p.num_classes == 1 ? " class" : " classes", " of equal programs), for ", programs, ":\n",
                "  on each rank  ", p.num_planned_actions, " actions, ", p.num_actions,
                " on all ranks: nothing is read before it is written, and accesses to one address are in order\n",
                "  meaning       ", p.num_homes,
                " homes leave the step as they entered it: gradients are whole where they are used, copies equal\n",
                "  across ranks  ", p.num_collectives, " collectives and ", p.num_messages,
                " messages match in order, kind, elements and dtype; no cycle of waits\n", "  memory        ",
                human_bytes(p.arena_bytes), " hold every program of the largest rank (rank ", p.largest_rank, ")\n");
}

}  // namespace tessera::host
