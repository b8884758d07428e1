// What the layout says of a role is what the homes must show. Where it splits a role over axes, the pieces of the ranks
// of these axes are the parameter, each element once:
//
//     the layout splits the gradient of h.0.ln_1.weight over dp, but ranks 0 and 1 both own its elements 0 to 31
//
// Where it does not, a rank owns all of its part, as the ranks beside it do, and in the same places as the rank that is
// walked for it, whose program it has:
//
//     rank 1 keeps h.0.attn.c_attn.weight in another place of its homes than rank 0, whose program it has
//
// A value may be whole where homes are of slices (ZeRO-1): those that are updated, or that their owner fills; what is
// in the rest verify_model sees. Cost: once the homes of all ranks of an axis that splits, and of those that are walked
// by another rank.

#include "verify/model/verify_homes.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "base/concat.h"
#include "verify/model/home_table.h"

namespace tessera::host {
namespace {

bool is_within_layers(const Program& program, int p, uint32_t role) {
  for (size_t axis = 0; axis < program.mesh->axes().size(); ++axis) {
    const LayoutEntry* entry = entry_on(program, p, static_cast<int>(axis), role);
    if (entry && entry->kind == TSR_LAYOUT_REPLICATED && !entry->coordinates.empty() &&
        std::ranges::count(entry->coordinates, program.coordinates[axis]) == 0)
      return false;
  }
  return true;
}

/// The axes whose ranks have slices of it.
std::vector<int> split_axes(const Program& program, int p, uint32_t role) {
  std::vector<int> axes;
  for (size_t axis = 0; axis < program.mesh->axes().size(); ++axis) {
    const LayoutEntry* entry = entry_on(program, p, static_cast<int>(axis), role);
    if (entry && is_sliced_by(*entry, *program.mesh)) axes.push_back(static_cast<int>(axis));
  }
  return axes;
}

/// The ranges of the rank's part of a parameter that are not padding.
std::vector<OwnedRange> needed(const Parameter& parameter) {
  if (!parameter.part) return {{0, parameter.num_elements, -1}};
  std::vector<OwnedRange> all;
  for (const ParameterPiece& piece : parameter.part->pieces) {
    const uint64_t end = piece.local_offset + piece.num_elements;
    if (!all.empty() && all.back().end == piece.local_offset)
      all.back().end = end;
    else
      all.push_back({piece.local_offset, end, -1});
  }
  return all;
}

void take(std::vector<OwnedRange>& left, const OwnedRange& owned) {
  std::vector<OwnedRange> rest;
  for (const OwnedRange& range : left) {
    if (range.begin < std::min(range.end, owned.begin))
      rest.push_back({range.begin, std::min(range.end, owned.begin), -1});
    if (std::max(range.begin, owned.end) < range.end) rest.push_back({std::max(range.begin, owned.end), range.end, -1});
  }
  left = std::move(rest);
}

std::string both(int a, int b) {
  return a == b ? concat("rank ", a, " owns twice") : concat("ranks ", a, " and ", b, " both own");
}

/// The fault of ascending ranges that should add up to a parameter; empty: none.
std::string fault_of(const Parameter& parameter, const std::vector<OwnedRange>& owned) {
  std::vector<OwnedRange> left = needed(parameter);
  const OwnedRange* last = nullptr;
  for (const OwnedRange& range : owned) {
    if (last && range.begin < last->end)
      return concat("but ", both(last->rank, range.rank), " its elements ", range.begin, " to ",
                    std::min(last->end, range.end) - 1);
    last = &range;
    take(left, range);
  }
  if (left.empty()) return "";
  return concat("but none of these ranks owns its elements ", left.front().begin, " to ", left.front().end - 1);
}

/// A piece, by its home.
using Place = std::tuple<size_t, uint64_t, int, uint64_t, uint64_t>;

/// By the elements of the rank's own part of a parameter.
std::vector<Place> places_of(const Program& program, const std::vector<bool>& parameters) {
  std::vector<Place> places;
  for (size_t h = 0; h < program.homes.size(); ++h)
    for (const HomeRun& run : runs_of(program.homes[h], *program.model))
      if (is_index(run.parameter, parameters) && parameters[static_cast<size_t>(run.parameter)])
        places.emplace_back(h, run.offset, run.parameter, run.element, run.num_elements);
  return places;
}

/// A parameter that one place has on two ranks with other parts of split tensors, of which one may be padded, and of
/// which the elements differ; or -1.
int first_exchanged(const std::vector<Place>& here, const std::vector<Place>& there) {
  const auto at = [](const Place& place) { return std::pair(std::get<0>(place), std::get<1>(place)); };
  const auto elements = [](const Place& place) { return std::pair(std::get<2>(place), std::get<3>(place)); };
  for (auto a = here.begin(), b = there.begin(); a != here.end() && b != there.end();) {
    if (at(*a) == at(*b) && elements(*a) != elements(*b)) return std::get<2>(*a);
    const bool is_before = at(*a) < at(*b), is_after = at(*b) < at(*a);
    if (!is_after) ++a;
    if (!is_before) ++b;
  }
  return -1;
}

/// A parameter whose places differ, or -1.
int first_elsewhere(const std::vector<Place>& here, const std::vector<Place>& there) {
  const auto [a, b] = std::ranges::mismatch(here, there);
  return a != here.end() ? std::get<int>(*a) : b != there.end() ? std::get<int>(*b) : -1;
}

}  // namespace

void HomeVerifier::check_places(const Program& walked, int rank, const std::function<const Program&()>& own,
                                DiagnosticList& diagnostics) {
  const Coordinates coordinates = mesh_.coordinates(rank);
  for (const auto& [axes, parameters] : parameters_by_axes(walked)) {
    Coordinates alike = walked.coordinates;
    for (const int axis : axes)
      alike[static_cast<size_t>(axis)] = coordinates[static_cast<size_t>(axis)];
    if (alike == coordinates) continue;
    const Program& there = alike == walked.coordinates ? walked : homes_of_(mesh_.rank(alike));
    bool has_other_parts = false;
    for (size_t axis = 0; axis < alike.size(); ++axis)
      has_other_parts |= mesh_.axes()[axis].splits == TSR_SPLITS_TENSORS && alike[axis] != coordinates[axis];
    const int p = (has_other_parts ? first_exchanged : first_elsewhere)(places_of(own(), parameters),
                                                                        places_of(there, parameters));
    if (p < 0) continue;
    diagnostics.add(concat("rank ", rank, " keeps ", walked.model->parameters[static_cast<size_t>(p)].name,
                           " in another place of its homes than rank ", mesh_.rank(alike),
                           ", whose program it has; between such ranks only what the layout splits may differ"));
    return;
  }
}

const HomeVerifier::ByAxes& HomeVerifier::parameters_by_axes(const Program& program) {
  if (!by_axes_.empty()) return by_axes_;
  std::vector<std::set<int>> axes(program.model->parameters.size());
  for (const LayoutEntry& entry : program.layout) {
    const bool is_on_some = entry.kind != TSR_LAYOUT_SPLIT && !entry.coordinates.empty();
    if (entry.parameter != kNamedDim && (is_on_some || is_sliced_by(entry, mesh_)))
      axes[static_cast<size_t>(entry.parameter)].insert(entry.axis);
  }
  for (size_t p = 0; p < axes.size(); ++p) {
    std::vector<bool>& parameters = by_axes_[{axes[p].begin(), axes[p].end()}];
    parameters.resize(axes.size());
    parameters[p] = true;
  }
  return by_axes_;
}

void HomeVerifier::check(const Program& program, DiagnosticList& diagnostics) {
  for (size_t p = 0; p < program.model->parameters.size(); ++p) {
    const bool trains = program.model->parameters[p].trainable;
    std::set<std::pair<std::vector<int>, bool>> checked;  // one finding for roles that are placed alike
    for (const uint32_t role : {TSR_HOME_GRADIENT, TSR_HOME_M, TSR_HOME_V, TSR_HOME_VALUE}) {
      if (!trains && role != TSR_HOME_VALUE) continue;
      const std::vector<int>& axes = axes_of(program, static_cast<int>(p), role);
      const bool is_free = role == TSR_HOME_VALUE && !splits_batch(axes);
      const bool is_here = is_within_layers(program, static_cast<int>(p), role);
      if (is_free || !checked.insert({axes, is_here}).second) continue;
      Shared shared{static_cast<int>(p), axes, first_over(program, axes), is_here};
      const auto known = checked_.find(shared);
      const bool is_right = known != checked_.end()
                                ? known->second
                                : is_shared_right(program, static_cast<int>(p), role, axes, diagnostics);
      if (known == checked_.end()) checked_.emplace(std::move(shared), is_right);
      if (!is_right) break;
    }
  }
}

/// The layout is equal on all ranks.
const std::vector<int>& HomeVerifier::axes_of(const Program& program, int p, uint32_t role) {
  const auto [found, is_new] = axes_.try_emplace({p, role});
  if (is_new) found->second = split_axes(program, p, role);
  return found->second;
}

bool HomeVerifier::splits_batch(const std::vector<int>& axes) const {
  return std::ranges::any_of(
      axes, [&](int axis) { return mesh_.axes()[static_cast<size_t>(axis)].splits == TSR_SPLITS_BATCH; });
}

const HomeVerifier::Owned& HomeVerifier::owned_by(int rank) {
  const auto [found, is_new] = owned_.try_emplace(rank);
  if (!is_new) return found->second;
  const Program& program = homes_of_(rank);
  for (const Home& home : program.homes)
    for (const HomeRun& run : runs_of(home, *program.model))
      found->second[run.parameter].push_back({run.element, run.element + run.num_elements, rank});
  return found->second;
}

int HomeVerifier::first_over(const Program& program, const std::vector<int>& axes) const {
  Coordinates first = program.coordinates;
  for (const int axis : axes)
    first[static_cast<size_t>(axis)] = 0;
  return mesh_.rank(first);
}

/// The rank and the ranks that differ from it on these axes only.
std::vector<int> HomeVerifier::ranks_over(const Program& program, const std::vector<int>& axes) const {
  std::vector<Coordinates> all{program.coordinates};
  for (const int axis : axes) {
    std::vector<Coordinates> more;
    for (Coordinates one : all)
      for (int c = 0; c < mesh_.axes()[static_cast<size_t>(axis)].num_ranks; ++c) {
        one[static_cast<size_t>(axis)] = c;
        more.push_back(one);
      }
    all = std::move(more);
  }
  std::vector<int> ranks;
  for (const Coordinates& one : all)
    ranks.push_back(mesh_.rank(one));
  return ranks;
}

bool HomeVerifier::is_shared_right(const Program& program, int p, uint32_t role, const std::vector<int>& axes,
                                   DiagnosticList& diagnostics) {
  std::vector<OwnedRange> owned;
  for (const int rank : ranks_over(program, axes)) {
    const Owned& by_parameter = owned_by(rank);
    if (const auto found = by_parameter.find(p); found != by_parameter.end())
      owned.insert(owned.end(), found->second.begin(), found->second.end());
  }
  std::ranges::sort(owned, {}, &OwnedRange::begin);
  const Parameter& parameter = program.model->parameters[static_cast<size_t>(p)];
  std::string fault;
  if (is_within_layers(program, p, role))
    fault = fault_of(parameter, owned);
  else if (!owned.empty())
    fault = concat("but rank ", owned.front().rank, " owns a part of it, which is on other stages");
  if (fault.empty()) return true;
  std::string over;
  for (const int axis : axes)
    over += (over.empty() ? "" : " and ") + mesh_.axes()[static_cast<size_t>(axis)].name;
  diagnostics.add(concat("the layout ", axes.empty() ? "leaves" : "splits", " the ", home_role_name(role), " of ",
                         parameter.name, axes.empty() ? " whole on each rank" : " over " + over, ", ", fault));
  return false;
}

}  // namespace tessera::host
