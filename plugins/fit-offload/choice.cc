// While some visit v has more in use than the limit, the highest first: of all gaps that relieve v, the one that moves
// the fewest bytes for each byte that becomes free.
//
//     gap of                                            moved for each byte
//     a tensor that was written since it last left      2 (out and in)
//     one that was only read since then                 1 (in)
//     optimizer state, used by its update alone         2 (it rests in the other memory; in and out)
//     parameters, between forward and backward          3 (they rest there: in twice, out after the update)
//     ... between backward and update, too              1 more
//
// Of equal ones that with most operations beside its copies, then the largest, then by id. What a gap costs depends on
// where its item leaves already, so the other gaps of an item that is taken are offered anew if that changed. In the
// end what later, larger moves have made superfluous is undone, the last one first. So the choice is a function of the
// view alone: it knows no rates, and measures nothing.
//
// An offer is kept at the O(log n) nodes that cover the visits it relieves, in a heap each; those for a visit are in
// the heaps from its leaf to the root. Offers that are outdated are dropped when they come to the top.
//
// Cost: O(log^2 n) for each gap and each time one is offered.

#include "choice.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>
#include <utility>

namespace tessera::fit {
namespace {

constexpr uint32_t kTaken = std::numeric_limits<uint32_t>::max();

std::vector<int64_t> excess_bytes(const OffloadView& view, uint64_t limit_bytes) {
  std::vector<int64_t> excess;
  for (const tsr_visit& visit : view.visits())
    excess.push_back(static_cast<int64_t>(visit.live_bytes) - static_cast<int64_t>(limit_bytes));
  return excess;
}

}  // namespace

bool Choice::Candidate::operator<(const Candidate& other) const {
  return std::tuple(other.cost, operations, num_bytes, other.item, other.gap) <
         std::tuple(cost, other.operations, other.num_bytes, item, gap);
}

Choice::Choice(const OffloadView& view, Distances distances, uint64_t limit_bytes)
    : peaks_(excess_bytes(view, limit_bytes)), offers_(2 * std::bit_ceil(view.visits().size())) {
  operations_before_.push_back(0);
  for (const tsr_visit& visit : view.visits())
    operations_before_.push_back(operations_before_.back() + visit.operations);
  for (const tsr_item& item : view.items())
    if (item.num_uses > 0) items_.emplace_back(item, view, distances);
}

void Choice::run() {
  if (excess() <= 0) return;
  for (uint32_t i = 0; i < items_.size(); ++i) {
    offered_.emplace_back(items_[i].num_gaps());
    for (uint32_t gap = 0; gap < items_[i].num_gaps(); ++gap)
      offer(i, gap);
  }
  while (excess() > 0) {
    const Candidate* cheapest = cheapest_at(highest_visit());
    if (!cheapest) return;
    take(cheapest->item, cheapest->gap);
  }
  drop_what_is_not_needed();
}

/// What it costs and where it helps depends on where the item leaves now; when neither has changed, the last offer
/// holds.
void Choice::offer(uint32_t item, uint32_t gap) {
  const MovableItem& movable = items_[item];
  Candidate candidate{0, operations_beside(movable.copies(gap)), movable.relieved_bytes(gap), item, gap, 0};
  if (candidate.num_bytes == 0) return;
  candidate.cost = static_cast<double>(movable.moved_bytes(gap)) / static_cast<double>(candidate.num_bytes);
  std::vector<Window> relief = movable.relief(gap);
  Offered& last = offered_[item][gap];
  if (last.version > 0 && last.cost == candidate.cost && last.relief == relief) return;
  candidate.version = last.version + 1;
  for (const Window& window : relief) {
    size_t begin = offers_.size() / 2 + window.first, end = offers_.size() / 2 + window.last + 1;
    for (; begin < end; begin /= 2, end /= 2) {
      if (begin % 2) offers_[begin++].push(candidate);
      if (end % 2) offers_[--end].push(candidate);
    }
  }
  last = {candidate.version, candidate.cost, std::move(relief)};
}

const Choice::Candidate* Choice::cheapest_at(uint32_t visit) {
  const Candidate* cheapest = nullptr;
  for (size_t node = offers_.size() / 2 + visit; node > 0; node /= 2) {
    auto& heap = offers_[node];
    while (!heap.empty() && !is_current(heap.top()))
      heap.pop();
    if (!heap.empty() && (!cheapest || *cheapest < heap.top())) cheapest = &heap.top();
  }
  return cheapest;
}

/// A persistent item that leaves rests in the other memory, so it leaves after its last use first.
void Choice::take(uint32_t item, uint32_t gap) {
  const MovableItem& movable = items_[item];
  const uint32_t last = movable.num_groups() - 1;
  const bool begins_to_rest = movable.is_persistent() && !movable.leaves_after(last);
  const auto [first_changed, last_changed] = movable.stay_around(gap);
  if (begins_to_rest) leave(item, last);
  if (gap != last) leave(item, gap);
  for (uint32_t g = first_changed; g <= last_changed && g < movable.num_gaps(); ++g)
    if (!movable.leaves_after(g)) offer(item, g);
}

void Choice::leave(uint32_t item, uint32_t gap) {
  set_leaves({item, gap}, true);
  taken_.push_back({item, gap});
  offered_[item][gap].version = kTaken;
}

void Choice::set_leaves(Gap gap, bool leaves) {
  MovableItem& movable = items_[gap.item];
  const auto [first, last] = movable.stay_around(gap.gap);
  add(movable, first, last, -1);
  movable.set_leaves_after(gap.gap, leaves);
  add(movable, first, last, 1);
}

void Choice::add(const MovableItem& movable, uint32_t first, uint32_t last, int64_t sign) {
  for (const Window& window : movable.windows(first, last))
    peaks_.add(window.first, window.last, sign * static_cast<int64_t>(window.num_bytes));
}

void Choice::drop_what_is_not_needed() {
  for (auto gap = taken_.rbegin(); gap != taken_.rend(); ++gap) {
    const MovableItem& movable = items_[gap->item];
    const bool rests_for_others =
        movable.is_persistent() && gap->gap + 1 == movable.num_groups() && movable.leaves_within();
    if (rests_for_others) continue;
    set_leaves(*gap, false);
    if (excess() > 0) set_leaves(*gap, true);
  }
}

double Choice::operations_beside(const std::vector<Window>& windows) const {
  double operations = 0;
  for (const Window& window : windows)
    operations += operations_before_[window.last + 1] - operations_before_[window.first];
  return operations;
}

}  // namespace tessera::fit
