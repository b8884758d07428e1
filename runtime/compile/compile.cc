// The pipeline of passes, from a model to the programs of one rank:
//
//     layout          each strategy declares how it splits parameters; conflicting pairs are refused here
//     shard_model     the model with the extents that this rank has after splits of tensors
//     build_program   forward, loss, backward, clip, optimizer
//     dce             removes what frozen parameters make useless
//     schedule        pipeline: which compute this rank runs, in which order, and the messages
//     recompute       needs the schedule: it looks for the first backward of each block
//     split compute   tensor: sums after split contractions, in recomputed segments too
//     split storage   fsdp and zero3, then ddp: gathers and reductions around all compute inserted so far
//     verify_pieces   each program has the homes of init
//     finalize        sums of loss and norm, completion of shared gradients, first adds
//     offload         each policy says what leaves device memory in a step, and the host moves it
//     zero_pads       pads that something reads and nothing writes, those of moved buffers too
//     host_staging    copies for collectives that work in the host's memory, those of finalize too
//     workspaces      scratch memory of communicators
//     dependencies    waits between streams, from the bindings
//     verify_form     well formed, written before read
//     plan_memory     addresses, over all programs of the rank at once; adds waits
//     verify_waits    by address; then verify_placement
//
// The order matters: reductions that run before a pass that inserts further uses of a gradient would miss those. So
// roles decide the order, never the command line (decision 0003).
//
// All of it is pure. Any process can compile the program of any rank, which is how rank 0 checks the whole job before
// the first step. Cost: about 20 us and a kilobyte for each action (decision 0025).

#include "compile/compile.h"

#include <algorithm>
#include <deque>
#include <future>
#include <iterator>
#include <map>
#include <new>
#include <set>
#include <thread>
#include <utility>

#include "base/concat.h"
#include "base/progress.h"
#include "compile/lower.h"
#include "passes/casts.h"
#include "passes/chunks.h"
#include "passes/dependencies.h"
#include "passes/finalize.h"
#include "passes/workspaces.h"
#include "passes/zero_pads.h"
#include "program/text_words.h"
#include "tessera/error.hpp"
#include "verify/verify_common.h"
#include "verify/verify_rank.h"

namespace tessera::host {
namespace {

/// One mistake usually causes many diagnostics; report the first few.
constexpr size_t kDiagnosticsShown = 8;
/// How often policies are asked again when what they move does not fit.
constexpr int kMaxTighterPlans = 8;

void refuse(const Program& program, const Diagnostics& diagnostics) {
  if (diagnostics.empty()) return;
  std::string text = concat("the ", text_of(kPurposeNames, program.purpose, "purpose"), " program under ",
                            strategies_text(*program.mesh, program.strategies), " is wrong:");
  for (size_t i = 0; i < std::min(diagnostics.size(), kDiagnosticsShown); ++i)
    text += "\n  " + diagnostics[i];
  if (diagnostics.size() > kDiagnosticsShown)
    text += "\n  and " + std::to_string(diagnostics.size() - kDiagnosticsShown) + " more";
  throw Error(TSR_E_INTERNAL, text);  // a pass is to blame, not the flags
}

/// Policies are asked about steps; the other programs find persistent buffers where a step has left them.
void offload(Program& program, const CompileInput& input, std::vector<RestingBuffer>& resting) {
  if (input.policies.empty()) return;
  const auto ask = [&](uint32_t flag) {
    return std::ranges::any_of(input.policies,
                               [&](const OffloadPolicy& p) { return (p.interface->flags & flag) != 0; });
  };
  if (ask(TSR_OFFLOAD_CASTS_ANEW)) cast_anew(program);
  if (program.purpose != TSR_PURPOSE_STEP)
    return follow_resting_buffers(program, resting, input.offload_limits.device_memory_is_host);
  if (ask(TSR_OFFLOAD_CUTS_HOMES)) cut_homes(program, input.chunk_bytes);
  for (const OffloadPolicy& policy : input.policies)
    std::ranges::move(run_policy(program, policy, input.offload_limits), std::back_inserter(resting));
}

/// What the host does after the passes.
void finish_program(Program& program, const CompileInput& input, std::vector<RestingBuffer>& resting) {
  finalize_program(program);
  offload(program, input, resting);
  zero_pads(program);
  stage_through_host(program, input.staged);
  bind_workspaces(program, input.describe_collective);
  derive_dependencies(program);
  refuse(program, verify_form(program));
}

RankPrograms compile_checked(const CompileInput& input, LoweredPrograms lowered, Progress& progress) {
  for (const Program* program : lowered.all()) {
    DiagnosticList diagnostics;
    verify_pieces(*program, lowered.init, diagnostics);
    refuse(*program, diagnostics.take());
  }
  HomesFingerprint homes = fingerprint_of_homes(lowered.init);
  std::string places = fingerprint_of_places(lowered.all());
  RankPrograms result{
      std::move(lowered.model), std::move(lowered.init), std::move(lowered.steps), std::move(lowered.eval), {},
      std::move(homes),         std::move(places)};
  std::vector<RestingBuffer> resting;
  for (Program& step : result.steps)
    finish_program(step, input, resting);
  for (Program& step : result.steps)
    agree_on_resting_buffers(step, resting);
  finish_program(result.init, input, resting);
  if (result.eval) finish_program(*result.eval, input, resting);

  std::vector<Program*> programs{&result.init};
  for (Program& step : result.steps)
    programs.push_back(&step);
  if (result.eval) programs.push_back(&*result.eval);
  if (input.guard_bytes)
    for (Program* program : programs)
      order_live_ranges(*program);
  progress.phase("placing its buffers");
  result.memory = plan_memory(programs, kDeviceBudget, input.guard_bytes);
  progress.phase("checking its programs");
  for (size_t i = 0; i < programs.size(); ++i) {
    refuse(*programs[i], verify_waits(*programs[i], &result.memory[i]));
    refuse(*programs[i], verify_placement(*programs[i]));
  }
  return result;
}

/// What is alive at once in the program with the largest arena on the device.
uint64_t live_peak_bytes(const RankPrograms& programs) {
  const auto use = [](const MemoryPlan& plan) {
    const auto found = plan.use.find(TSR_MEMORY_DEVICE);
    return found == plan.use.end() ? MemoryUse() : found->second;
  };
  const MemoryUse largest = use(
      *std::ranges::max_element(programs.memory, {}, [&](const MemoryPlan& plan) { return use(plan).arena_bytes; }));
  return largest.persistent_bytes + largest.live_peak_bytes;
}

/// A policy may choose its moves by the device memory that a rank may use, but all it can count is what is alive at
/// once. Where the arena is larger than that memory, policies are asked again with device_bytes lowered by the
/// excess.
RankPrograms compile_within_limit(const CompileInput& input, LoweredPrograms lowered, Progress& progress) {
  if (input.policies.empty()) return compile_checked(input, std::move(lowered), progress);
  RankPrograms smallest = compile_checked(input, lowered, progress);
  uint64_t arena = smallest.arena_bytes(TSR_MEMORY_DEVICE), live = live_peak_bytes(smallest);
  std::pair<uint64_t, uint64_t> last;
  CompileInput tighter = input;
  uint64_t& told = tighter.offload_limits.device_bytes;
  const uint64_t limit = told;
  for (int i = 0; i < kMaxTighterPlans && arena > limit && last != std::pair(arena, live); ++i) {
    last = {arena, live};
    told = std::min(told, live) - std::min({arena - limit, told, live});
    try {
      RankPrograms programs = compile_checked(tighter, lowered, progress);
      arena = programs.arena_bytes(TSR_MEMORY_DEVICE), live = live_peak_bytes(programs);
      if (arena < smallest.arena_bytes(TSR_MEMORY_DEVICE)) smallest = std::move(programs);
    } catch (const PolicyRefusal&) {
      break;  // it cannot do with less
    }
  }
  return smallest;
}

/// Reports what was being planned when memory ran out.
template <class Work>
auto within_memory(const CompileInput& input, int rank, Work&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    throw Error(TSR_E_RESOURCE_EXHAUSTED,
                concat("planning rank ", rank, " of ", input.mesh.num_ranks(), " ran out of memory: a step has ",
                       input.step_config.num_micro_batches, " micro-batches of ", input.model.segments.size(),
                       " segments each; lower --grad-accum, use a model of fewer layers, ",
                       "or plan on a machine with more memory"));
  }
}

/// Finishes ranks beside one another, while the next one is lowered: a good part of planning is the host's own work on
/// one rank. Passes of strategies and policies are not asked from other threads than the caller's; of plugins only
/// `describe` is called here, which may be from any. As many are open at a time as there are cores, so that lowered
/// programs do not pile up. What fails is what would have failed first had one rank been finished after another.
class Finisher {
 public:
  Finisher(const CompileInput& input, Progress& progress, bool are_several)
      : input_(input),
        progress_(progress),
        launch_(are_several && input.policies.empty() ? std::launch::async | std::launch::deferred
                                                      : std::launch::deferred) {}

  void start(int rank, LoweredPrograms lowered) {
    if (open_.size() >= std::max(1u, std::thread::hardware_concurrency())) finish_first();
    const auto finish = [this, rank](LoweredPrograms own) {
      return within_memory(input_, rank, [&] { return compile_within_limit(input_, std::move(own), progress_); });
    };
    open_.emplace_back(rank, std::async(launch_, finish, std::move(lowered)));
  }

  void finish_all() {
    while (!open_.empty())
      finish_first();
  }

  std::map<int, RankPrograms> take() {
    finish_all();
    return std::move(finished_);
  }

 private:
  void finish_first() {
    auto [rank, programs] = std::move(open_.front());
    open_.pop_front();
    finished_.emplace(rank, programs.get());
  }

  const CompileInput& input_;
  Progress& progress_;
  const std::launch launch_;
  std::map<int, RankPrograms> finished_;
  std::deque<std::pair<int, std::future<RankPrograms>>> open_;  // last: waits for its threads, which use the others
};

/// The representatives of all classes: in turn one of the first half and one of the second, each in order. Ranks
/// whose programs turn out to be equal are often next to one another (under zero3 the last, which own nothing): lowered
/// at the end, they would keep one core busy and leave the others nothing to finish.
std::vector<int> halves_in_turn(const RankClasses& classes) {
  std::vector<int> ascending, result;
  for (const auto& [rank, members] : classes.members())
    ascending.push_back(rank);
  const size_t half = (ascending.size() + 1) / 2;
  for (size_t i = 0; i < ascending.size(); ++i)
    result.push_back(ascending[i / 2 + (i % 2) * half]);
  return result;
}

}  // namespace

std::vector<const Program*> RankPrograms::all() const {
  return programs_of(*this);
}

uint64_t RankPrograms::arena_bytes(uint32_t memory_kind) const {
  uint64_t bytes = 0;
  for (const MemoryPlan& plan : memory)
    if (const auto use = plan.use.find(memory_kind); use != plan.use.end())
      bytes = std::max(bytes, use->second.arena_bytes);
  return bytes;
}

RankPrograms compile_rank(const CompileInput& input, const Coordinates& coordinates) {
  Progress progress(input.log, concat("planning rank ", input.mesh.rank(coordinates)));
  progress.phase("writing its programs");
  return within_memory(input, input.mesh.rank(coordinates),
                       [&] { return compile_within_limit(input, Lowering(input).lower(coordinates), progress); });
}

// One rank of each class that strategies declare is lowered. Of ranks with equal programs only the first that is
// lowered is finished, and coordinates whose programs are equal are merged into larger classes. Then those that
// represent a class and are not finished yet are, and what represents none is left out.
JobPrograms compile_job(const CompileInput& input) {
  const RankClasses declared(input.mesh, input.strategies);
  const size_t num_declared = declared.members().size();
  Progress progress(input.log, num_declared == 1 ? "planning what every rank does"
                                                 : concat("planning ", num_declared, " ranks that differ"));
  Lowering lowering(input);
  Finisher finisher(input, progress, num_declared > 1);
  std::set<int> started;
  std::map<std::string, int> number_of;  // by digest
  std::vector<int> programs(static_cast<size_t>(input.mesh.num_ranks()));
  const auto lower = [&](int rank) {
    try {
      progress.phase("writing its programs");
      return within_memory(input, rank, [&] {
        LoweredPrograms lowered = lowering.lower(input.mesh.coordinates(rank));
        std::string digest = digest_of(lowered);
        return std::pair(std::move(lowered), std::move(digest));
      });
    } catch (...) {
      finisher.finish_all();  // a rank before this one may have failed
      throw;
    }
  };
  const auto plan = [&](int rank, bool is_needed) {
    auto [lowered, digest] = lower(rank);
    const auto [number, is_new] = number_of.try_emplace(std::move(digest), static_cast<int>(number_of.size()));
    if (is_new || is_needed) {
      finisher.start(rank, std::move(lowered));
      started.insert(rank);
    }
    return number->second;
  };
  size_t num_done = 0;
  for (const int rank : halves_in_turn(declared)) {
    const std::vector<int>& members = declared.members().at(rank);
    progress.at(num_done++, num_declared);
    const int number = plan(rank, false);
    for (const int member : members)
      programs[static_cast<size_t>(member)] = number;
  }
  RankClasses classes = RankClasses::of_programs(input.mesh, programs);
  for (const auto& [rank, members] : classes.members())
    if (!started.contains(rank)) plan(rank, true);
  std::map<int, RankPrograms> programs_of = finisher.take();
  std::erase_if(programs_of, [&](const auto& entry) { return !classes.members().contains(entry.first); });
  return {std::move(classes), std::move(programs_of)};
}

}  // namespace tessera::host
