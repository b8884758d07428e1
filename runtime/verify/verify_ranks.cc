// Checks that the programs of all ranks fit together: matching (collective_matching.cc), then no cycle in the wait-for
// graph (wait_graph.cc). A deadlock is printed as a chain:
//
//     deadlock: rank 0 #12 comm.pp.activation_0 send h.1.x -> waits for rank 1 #9 comm.pp.gradient_1 send d ...
//
// Cost: actions of one rank of each class; the classes are few (8 for 1,024 ranks of a typical mesh).

#include "verify/verify.h"
#include "verify/wait_graph.h"

namespace tessera::host {
namespace {

constexpr size_t kShownAtAnEnd = 4;
constexpr size_t kLongChain = 2 * kShownAtAnEnd + 1;

/// Of actions of one rank that wait for one another the first and the last: where the chain comes to that rank, and
/// where it leaves it.
std::vector<ActionRef> ends_on_each_rank(const std::vector<ActionRef>& chain) {
  std::vector<ActionRef> ends;
  for (size_t i = 0; i < chain.size(); ++i) {
    const bool is_within =
        i > 0 && i + 1 < chain.size() && chain[i - 1].rank == chain[i].rank && chain[i + 1].rank == chain[i].rank;
    if (!is_within) ends.push_back(chain[i]);
  }
  return ends;
}

/// "rank 0 #12 comm.pp.forward send x waits for rank 1 #9 ..., which waits for ...". Between two waits the chain may
/// pass from one member of a collective to another; that is a wait too. A long chain shows what ranks wait for of one
/// another, and of that, if it is still long, both ends.
std::string chain_text(const ProgramOf& program, const std::vector<WaitGraph::Wait>& cycle) {
  std::vector<ActionRef> chain;
  const auto visit = [&](ActionRef place) {
    if (chain.empty() || chain.back().rank != place.rank || chain.back().action != place.action) chain.push_back(place);
  };
  for (const WaitGraph::Wait& wait : cycle) {
    visit(wait.action);
    visit(wait.awaited);
  }
  visit(cycle.front().action);
  if (chain.size() > kLongChain) chain = ends_on_each_rank(chain);
  const size_t left_out = chain.size() > kLongChain ? chain.size() - 2 * kShownAtAnEnd : 0;
  std::string text;
  for (size_t i = 0; i < chain.size(); ++i) {
    if (left_out && i == kShownAtAnEnd) {
      text += " -> waits for " + std::to_string(left_out) + " others, one after another";
      i += left_out;
    }
    text +=
        (text.empty() ? "" : " -> waits for ") + action_text(program(chain[i].rank), chain[i].rank, chain[i].action);
  }
  return text;
}

}  // namespace

// The matching implies that each stream issues in one order on all ranks, and the graph that the streams together do
// not deadlock. "Groups that share ranks issue in one relative order" is required beyond that, for communicators whose
// collectives occupy the device until all members have arrived (nccl): there the issue order of different streams
// counts too. It is required in the strongest form that holds for every correct program: since the semantics of a list
// is to run from top to bottom, running all lists so must end, if sends do not wait. In this graph two collectives with
// two ranks in common that are listed in different orders are a cycle. The order of messages is left to the schedules:
// 1f1b interleaves its two lanes differently on each stage.
Diagnostics verify_ranks(const Mesh& mesh, const RankClasses& classes, const ProgramOf& program) {
  DiagnosticList diagnostics;
  const MatchedOps matched_ops = match_ranks(mesh, matched_ranks(mesh, classes, program), program, diagnostics);
  return diagnostics.empty() ? verify_order(program, matched_ops) : diagnostics.take();
}

Diagnostics verify_order(const ProgramOf& program, const MatchedOps& matched) {
  DiagnosticList diagnostics;
  const WaitGraph graph(program, matched);
  if (const auto cycle = graph.find_cycle(WaitGraph::Order::list); !cycle.empty())
    diagnostics.add(
        "the ranks list shared collectives in different orders, so that running every list from top to bottom "
        "never ends: " +
        chain_text(program, cycle) +
        "; insert them where all ranks have them in one order, such as after the last action that writes what they "
        "take");
  else if (const auto deadlock = graph.find_cycle(WaitGraph::Order::streams); !deadlock.empty())
    diagnostics.add("deadlock: " + chain_text(program, deadlock));
  return diagnostics.take();
}

}  // namespace tessera::host
