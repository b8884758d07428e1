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
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "base/concat.h"
#include "base/progress.h"
#include "compile/finish.h"
#include "compile/lower.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

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
      return within_memory(input_, rank, [&] { return finish_rank(input_, std::move(own), progress_); });
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

/// Plans ranks, those whose programs are equal to an earlier one's as far as that shows. While one rank is lowered, the
/// one before it is looked up.
class Planner {
 public:
  Planner(const CompileInput& input, Progress& progress, bool are_several)
      : input_(input), progress_(progress), lowering_(input), finisher_(input, progress, are_several) {}

  /// Finishes the rank unless one before it has the same programs.
  void plan(int rank) { look_up(rank, lower(rank), false); }
  /// Finishes the rank, whatever others have.
  void require(int rank) {
    sort();
    if (!started_.contains(rank)) look_up(rank, lower(rank), true);
  }
  /// Equal for ranks with equal programs; of ranks that plan() was called for.
  int number_of(int rank) {
    sort();
    return numbers_.at(rank);
  }
  std::map<int, RankPrograms> take() {
    sort();
    return finisher_.take();
  }

 private:
  struct LookUp {
    int rank;
    bool is_required;
    std::unique_ptr<LoweredPrograms> lowered;
    std::future<std::string> digest;  // last: its thread reads what was lowered
  };

  LoweredPrograms lower(int rank) {
    try {
      progress_.phase("writing its programs");
      return within_memory(input_, rank, [&] { return lowering_.lower(input_.mesh.coordinates(rank)); });
    } catch (...) {
      sort();
      finisher_.finish_all();  // a rank before this one may have failed
      throw;
    }
  }

  void look_up(int rank, LoweredPrograms lowered, bool is_required) {
    sort();
    auto own = std::make_unique<LoweredPrograms>(std::move(lowered));
    std::future<std::string> digest = std::async(digest_of, std::cref(*own));
    last_.emplace(LookUp{rank, is_required, std::move(own), std::move(digest)});
  }

  /// Starts to finish what was looked up last, if that is new or required.
  void sort() {
    if (!last_) return;
    LookUp last = *std::exchange(last_, std::nullopt);
    const auto [number, is_new] = number_of_.try_emplace(last.digest.get(), static_cast<int>(number_of_.size()));
    numbers_[last.rank] = number->second;
    if (!is_new && !last.is_required) return;
    finisher_.start(last.rank, std::move(*last.lowered));
    started_.insert(last.rank);
  }

  const CompileInput& input_;
  Progress& progress_;
  Lowering lowering_;
  Finisher finisher_;
  std::set<int> started_;
  std::map<std::string, int> number_of_;  // by digest
  std::map<int, int> numbers_;            // by rank
  std::optional<LookUp> last_;
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

RankPrograms compile_rank(const CompileInput& input, const Coordinates& coordinates) {
  Progress progress(input.log, concat("planning rank ", input.mesh.rank(coordinates)));
  progress.phase("writing its programs");
  return within_memory(input, input.mesh.rank(coordinates),
                       [&] { return finish_rank(input, Lowering(input).lower(coordinates), progress); });
}

// One rank of each class that strategies declare is lowered. Of ranks with equal programs only the first that is
// lowered is finished, and coordinates whose programs are equal are merged into larger classes. Then those that
// represent a class and are not finished yet are, and what represents none is left out.
JobPrograms compile_job(const CompileInput& input) {
  const RankClasses declared(input.mesh, input.strategies);
  const size_t num_declared = declared.members().size();
  Progress progress(input.log, num_declared == 1 ? "planning what every rank does"
                                                 : concat("planning ", num_declared, " ranks that differ"));
  Planner planner(input, progress, num_declared > 1);
  size_t num_done = 0;
  for (const int rank : halves_in_turn(declared)) {
    progress.at(num_done++, num_declared);
    planner.plan(rank);
  }
  std::vector<int> programs;
  for (int rank = 0; rank < input.mesh.num_ranks(); ++rank)
    programs.push_back(planner.number_of(declared.representative(rank)));
  RankClasses classes = RankClasses::of_programs(input.mesh, programs);
  for (const auto& [rank, members] : classes.members())
    planner.require(rank);
  std::map<int, RankPrograms> programs_of = planner.take();
  std::erase_if(programs_of, [&](const auto& entry) { return !classes.members().contains(entry.first); });
  return {std::move(classes), std::move(programs_of)};
}

}  // namespace tessera::host
