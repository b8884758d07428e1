// Each kind of collective in sizes of 1 KiB, 4 KiB, 16 KiB, ... up to the program's largest; a prediction interpolates
// between them. Then sums of 1 MiB beside compute. There all ranks must submit the same number of collectives, though
// each computes for as long as it takes: after each collective they vote on whether any rank still computes.
//
//     rank 0   sum vote sum vote sum vote      computes until the second vote
//     rank 1   sum vote sum vote sum vote      computes until the third: both end there

#include "rates/collective_rates.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "base/clock.h"
#include "guard/plugin_calls.h"
#include "program/collective_operands.h"
#include "rates/collective_bench.h"

namespace tessera::host {
namespace {

using Clock = std::chrono::steady_clock;
using Stop = std::function<bool()>;

constexpr uint64_t kMinBytes = 1024, kFactor = 4;
constexpr uint64_t kBesideBytes = uint64_t{1} << 20;
constexpr CollectiveRounds kRounds = {3, 12};
constexpr double kSeconds = 0.5;  // alone, and beside compute

uint32_t coll_kind_of(uint32_t action) {
  switch (action) {
    case TSR_ACTION_ALL_REDUCE:
      return TSR_COLL_ALL_REDUCE;
    case TSR_ACTION_REDUCE_SCATTER:
      return TSR_COLL_REDUCE_SCATTER;
    case TSR_ACTION_ALL_GATHER:
      return TSR_COLL_ALL_GATHER;
    case TSR_ACTION_BROADCAST:
      return TSR_COLL_BROADCAST;
    case TSR_ACTION_REDUCE:
      return TSR_COLL_REDUCE;
    case TSR_ACTION_ALL_TO_ALL:
      return TSR_COLL_ALL_TO_ALL;
    case TSR_ACTION_EXCHANGE:
      return TSR_COLL_EXCHANGE;
    default:
      return TSR_COLL_SEND;
  }
}

/// Of the largest operand: of a gather what all slices have together.
uint64_t bytes_of(const Program& program, const Action& action) {
  uint64_t most = 0;
  for (const Binding& binding : action.bindings)
    most = std::max<uint64_t>(most, TSR_NUM_BYTES(program.buffer(binding.buffer).dtype, binding.num_elements));
  return most;
}

/// A vote of all ranks.
class Vote {
 public:
  explicit Vote(CollectiveGroup& group) : group_(group), number_(group.device(), TSR_MEMORY_DEVICE, sizeof(float)) {
    collective_.struct_size = sizeof collective_;
    collective_.kind = TSR_COLL_ALL_REDUCE;
    collective_.reduce = TSR_REDUCE_SUM;
    collective_.dtype = TSR_F32;
    collective_.num_elements = 1;
    collective_.send = collective_.recv = number_.at(0);
    collective_.label = str("bench");
    workspace_.emplace(group.device(), TSR_MEMORY_DEVICE, group.workspace_bytes(collective_));
    if (workspace_->num_bytes() > 0) collective_.workspace = workspace_->at(0);
  }
  /// Whether any rank votes for it.
  bool any(bool own) {
    const auto& api = group_.device().api();
    float number = own ? 1 : 0;
    call(api.copy, group_.stream(), number_.at(0), &number, sizeof number);
    group_.submit(collective_);
    call(api.copy, group_.stream(), &number, number_.at(0), sizeof number);
    group_.wait();
    return number > 0;
  }

 private:
  CollectiveGroup& group_;
  Arena number_;
  std::optional<Arena> workspace_;
  tsr_collective collective_{};
};

/// Repeats sums until every rank is done; returns sums per second.
double sums_per_second(CollectiveBench& bench, Vote& vote, const std::function<bool()>& goes_on) {
  const CollectiveCase sum{TSR_COLL_ALL_REDUCE, kBesideBytes};
  const auto start = Clock::now();
  int num_sums = 0;
  do {
    bench.measure(sum, {0, 1}, false);
    ++num_sums;
  } while (vote.any(goes_on()));
  return num_sums / seconds_since(start);
}

Together measure_beside(CollectiveGroup& group, const KernelLoad& compute) {
  CollectiveBench bench(group, kBesideBytes, TSR_F32);
  Vote vote(group);
  const auto start = Clock::now();
  const double alone = sums_per_second(bench, vote, [&] { return seconds_since(start) < kSeconds; });
  std::vector<double> beside;
  Together together;
  together.compute = compute.share_kept(
      kSeconds, [&](const Stop& computes) { beside.push_back(sums_per_second(bench, vote, computes)); });
  together.copies = std::clamp(median(beside) / alone, 1e-3, 1.0);
  return together;
}

}  // namespace

std::vector<int> group_sizes(const Program& program) {
  std::set<int> sizes;
  for (const Action& action : program.actions)
    if (is_collective(action.kind))
      if (const int size = CollectiveOperands(program, action).num_ranks; size > 1) sizes.insert(size);
  return {sizes.begin(), sizes.end()};
}

CollectiveRates measure_collectives(CollectiveGroup& group, const Program& program, const std::string& communicator,
                                    const KernelLoad& compute) {
  std::set<uint32_t> kinds;
  uint64_t most = kMinBytes;
  for (const Action& action : program.actions) {
    if (!is_collective(action.kind) || action.kind == TSR_ACTION_BARRIER) continue;
    if (CollectiveOperands(program, action).num_ranks != group.num_ranks()) continue;
    kinds.insert(coll_kind_of(action.kind));
    most = std::max(most, bytes_of(program, action));
  }
  CollectiveRates rates{communicator, group.num_ranks(), {}, {}};
  CollectiveBench bench(group, most, TSR_F32);
  for (const CollectiveKind& kind : collective_kinds()) {
    if (!kinds.contains(kind.kind)) continue;
    for (uint64_t size = kMinBytes;; size = std::min(most, size * kFactor)) {
      const CollectiveCase one{kind.kind, size};
      const double seconds = bench.measure(one, kRounds, CollectiveBench::can_be_in_place(kind.kind)).median;
      rates.times.push_back(
          {std::string(kind.name), static_cast<double>(TSR_NUM_BYTES(TSR_F32, bench.num_elements(one))), seconds});
      if (size == most) break;
    }
  }
  rates.beside_compute = measure_beside(group, compute);
  return rates;
}

}  // namespace tessera::host
