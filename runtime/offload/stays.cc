// Cuts the time of an item into stays, and its elements into atoms: the ranges between all ends of its bindings, which
// are bound as a whole or not at all. A stay ends after a visit that a policy lets the item leave after. Of a gradient
// that leaves after its backward (visit 7), is summed up in visit 12 and updates in visit 15:
//
//     visit             7            8..11        12             13     14     15
//     uses              w            r            sum_squares    clip          optimizer
//     stays             |- first -|                                            |- second -|
//
// Squares come along: where sum_squares would begin a stay of its own, and the last stay has all of its atoms, the
// action belongs to that stay, and is moved to where the item is copied out. Sums of squares are exact, so their order
// is of no consequence, and what would be fetched for them alone, 4 bytes a parameter, is not. A collective that
// completes the gradient before the squares is a use like any other: then the squares are in its stay, wherever that
// is.
//
// A stay also ends where the processor changes: actions that run on the host have stays of their own. Policies let an
// item leave before the host uses it; after that it is fetched as far ahead as the last answer before says.
//
// Cost: n log n in the accesses of an item.

#include "offload/stays.h"

#include <algorithm>
#include <set>

#include "program/range_set.h"

namespace tessera::host {
namespace {

/// The ends of all accesses. Padding, which a transient item's actions read without having written it, belongs to the
/// atom before it: zero_pads writes it before the item is copied out.
std::vector<uint64_t> bounds_of(const Buffer& item, std::span<const Access> accesses) {
  std::set<uint64_t> bounds;
  RangeSet written, padding;
  for (const Access& access : accesses) {
    bounds.insert({access.begin, access.end});
    if (access.mode == TSR_MODE_WRITE) written.add(access.begin, access.end);
    for (const auto& [begin, end] : written.gaps(access.begin, access.end))
      padding.add(begin, end);
  }
  if (!item.persistent)
    std::erase_if(bounds,
                  [&](uint64_t bound) { return bound != *bounds.begin() && padding.contains(bound, bound + 1); });
  return {bounds.begin(), bounds.end()};
}

size_t atom_at(std::span<const uint64_t> bounds, uint64_t offset) {
  return static_cast<size_t>(std::ranges::upper_bound(bounds, offset) - bounds.begin()) - 1;
}

class StayFinder {
 public:
  StayFinder(const VisitedStep& step, const LeavesOfItem& leaves) : step_(step), leaves_(leaves) {}

  Stays run(const Buffer& item, std::span<const Access> accesses) {
    is_transient_ = !item.persistent;
    result_.bounds = bounds_of(item, accesses);
    stay_of_atom_.resize(result_.bounds.size());
    for (const Access& access : accesses)
      add(access);
    add_missing_leaves();
    if (!item.persistent && !result_.all.empty()) result_.all.back().leave = nullptr;
    return std::move(result_);
  }

 private:
  void add(const Access& access) {
    std::vector<Stay>& stays = result_.all;
    const uint32_t visit = step_.visit_of[access.action];
    const bool on_host = step_.on_host.contains(access.action);
    const bool continues =
        !stays.empty() && stays.back().on_host == on_host && (stays.back().last_visit == visit || !stays.back().leave);
    if (!continues && is_of_last_stay(access)) return stays.back().squares.push_back(access.action);
    if (!continues) stays.push_back({{}, {}, visit, visit, on_host, nullptr});
    Stay& stay = stays.back();
    stay.accesses.push_back(access);
    stay.last_visit = visit;
    const auto leave = leaves_.find(visit);
    stay.leave = leave == leaves_.end() ? nullptr : leave->second;
    for_each_atom(access, [&](size_t atom) { stay_of_atom_[atom] = stays.size(); });
  }

  /// Whether the action sums squares of atoms that are all in device memory in the last stay.
  bool is_of_last_stay(const Access& access) const {
    const bool may_come_along = is_transient_ && !result_.all.empty() && !result_.all.back().on_host &&
                                access.mode == TSR_MODE_READ && !step_.on_host.contains(access.action);
    if (!may_come_along || !only_sums_squares(step_.program.actions[access.action])) return false;
    bool is_there = true;
    for_each_atom(access, [&](size_t atom) { is_there &= stay_of_atom_[atom] == result_.all.size(); });
    return is_there;
  }

  /// Where a stay ends because the processor changes.
  void add_missing_leaves() {
    for (size_t s = 0; s + 1 < result_.all.size(); ++s) {
      Stay& stay = result_.all[s];
      auto last = leaves_.upper_bound(stay.last_visit);
      if (last != leaves_.begin()) --last;
      if (!stay.leave) stay.leave = last->second;
    }
  }

  void for_each_atom(const Access& access, const auto& visit) const {
    for (size_t atom = atom_at(result_.bounds, access.begin); result_.bounds[atom] < access.end; ++atom)
      visit(atom);
  }

  const VisitedStep& step_;
  const LeavesOfItem& leaves_;
  bool is_transient_ = false;
  Stays result_;
  std::vector<size_t> stay_of_atom_;  // the last one that uses it, counted from 1
};

}  // namespace

bool only_sums_squares(const Action& action) {
  const auto is_operand = [](const Binding& b) { return TSR_SLOT_ROLE(b.slot) != TSR_ROLE_SCALAR; };
  return action.kind == TSR_ACTION_SUM_SQUARES && std::ranges::count_if(action.bindings, is_operand) == 1;
}

void Stays::for_each_atom(const Stay& stay, const std::function<void(size_t, const Access&)>& visit) const {
  for (const Access& access : stay.accesses)
    for (size_t atom = atom_at(bounds, access.begin); bounds[atom] < access.end; ++atom)
      visit(atom, access);
}

Stays stays_of(const VisitedStep& step, const Buffer& item, std::span<const Access> accesses,
               const LeavesOfItem& leaves) {
  return StayFinder(step, leaves).run(item, accesses);
}

}  // namespace tessera::host
