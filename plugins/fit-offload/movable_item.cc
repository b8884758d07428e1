// The value of a unit over a step, in groups a, b, c; ahead = linger = 1:
//
//     visit        0  1  2  3  4  5  6  7  8  9 10 11 12 13
//     uses               r                 r        +  +          forward, backward, two chunks are updated
//     group              a                 b        c  c
//     stays           |==|              |==|     |=====|==|       if it leaves after each
//
// Two uses are of one group where no visit between them would be free of the item: the next one is at most
// ahead + linger + 1 visits away. Uses of the update are of one group too; a stay that is such a group alone passes in
// pieces, each chunk for itself, at no cost: a chunk's update uses its own range.
//
// What is copied: all that a stay uses comes in, and what it writes goes out. Only the first stay of a transient item
// is not fetched, and its last is not evicted.
//
// Cost: linear in the uses to make one, then in the groups of the stay that is asked about.

#include "movable_item.h"

#include <algorithm>

namespace tessera::fit {

MovableItem::MovableItem(const tsr_item& item, const OffloadView& view, Distances distances)
    : item_(item),
      num_visits_(static_cast<uint32_t>(view.visits().size())),
      distances_(distances),
      is_persistent_(OffloadView::is_persistent(item)) {
  const auto is_update = [&](const tsr_use& use) { return view.visits()[use.visit].kind == TSR_VISIT_UPDATE; };
  for (uint32_t u = 0; u < item.num_uses; ++u) {
    const tsr_use& use = item.uses[u];
    if (groups_.empty() || use.visit - groups_.back().last_visit > distances.ahead + distances.linger + 1)
      groups_.push_back({u, u, use.visit, use.visit, 0, 0, 0, true});
    Group& group = groups_.back();
    group.last_use = u;
    group.last_visit = use.visit;
    group.used_bytes += use.num_bytes;
    if (use.mode != TSR_MODE_READ) group.written_bytes += use.num_bytes;
    group.largest_use = std::max(group.largest_use, use.num_bytes);
    group.is_run &= is_update(use);
  }
  for (Group& group : groups_) {
    group.is_run &= group.used_bytes <= item.num_bytes;
    group.used_bytes = std::min(group.used_bytes, item.num_bytes);
    group.written_bytes = std::min(group.written_bytes, item.num_bytes);
  }
  leaves_.resize(groups_.size());
}

std::pair<uint32_t, uint32_t> MovableItem::stay_around(uint32_t group) const {
  uint32_t first = group, last = group;
  while (first > 0 && !leaves_[first - 1])
    --first;
  if (last + 1 < num_groups()) ++last;  // of the stay after the gap
  while (last + 1 < num_groups() && !leaves_[last])
    ++last;
  return {first, last};
}

uint64_t MovableItem::used_bytes(uint32_t first, uint32_t last) const {
  uint64_t num_bytes = 0;
  for (uint32_t g = first; g <= last; ++g)
    num_bytes += groups_[g].used_bytes;
  return std::min(num_bytes, item_.num_bytes);
}

uint64_t MovableItem::written_bytes(uint32_t first, uint32_t last) const {
  uint64_t num_bytes = 0;
  for (uint32_t g = first; g <= last; ++g)
    num_bytes += groups_[g].written_bytes;
  return std::min(num_bytes, item_.num_bytes);
}

uint64_t MovableItem::copied_bytes(uint32_t first, uint32_t last, bool rests) const {
  return (is_fetched(first, rests) ? used_bytes(first, last) : 0) +
         (is_evicted(last, rests) ? written_bytes(first, last) : 0);
}

uint64_t MovableItem::device_bytes(uint32_t first, uint32_t last, bool rests) const {
  return is_fetched(first, rests) ? used_bytes(first, last) : item_.num_bytes;
}

uint64_t MovableItem::moved_bytes(uint32_t group) const {
  const auto [first, last] = stay_around(group);
  const uint64_t now = copied_bytes(first, last, rests());
  uint64_t then = copied_bytes(first, group, is_persistent_);
  if (group < last) then += copied_bytes(group + 1, last, is_persistent_);
  return then - std::min(then, now);
}

uint64_t MovableItem::relieved_bytes(uint32_t group) const {
  const auto [first, last] = stay_around(group);
  return device_bytes(first, last, rests());
}

Window MovableItem::around(uint32_t first_visit, uint32_t last_visit, bool is_fetched, bool lingers,
                           uint64_t num_bytes) const {
  const uint32_t ahead = is_fetched ? std::min(distances_.ahead, first_visit) : 0;
  const uint32_t linger = lingers ? distances_.linger : 0;
  return {first_visit - ahead, std::min(last_visit + linger, num_visits_ - 1), num_bytes};
}

std::vector<Window> MovableItem::windows(uint32_t first, uint32_t last) const {
  if (is_persistent_ && !rests()) return {{0, num_visits_ - 1, item_.num_bytes}};
  std::vector<Window> result;
  for (uint32_t begin = first; begin <= last;) {
    uint32_t end = begin;
    while (end < last && !leaves_[end])
      ++end;
    const bool fetched = is_fetched(begin, rests()), evicted = is_evicted(end, rests());
    const auto window = [&](uint32_t first_visit, uint32_t last_visit, bool is_written, uint64_t num_bytes) {
      result.push_back(around(first_visit, last_visit, fetched, evicted && is_written, num_bytes));
    };
    if (passes_in_pieces(begin, end, rests()))
      for (const tsr_use& use : uses_of(groups_[begin]))
        window(use.visit, use.visit, use.mode != TSR_MODE_READ, use.num_bytes);
    else
      window(groups_[begin].first_visit, groups_[end].last_visit, written_bytes(begin, end) > 0,
             device_bytes(begin, end, rests()));
    begin = end + 1;
  }
  return result;
}

std::vector<Window> MovableItem::relief(uint32_t group) const {
  const auto [first, last] = stay_around(group);
  const uint64_t num_bytes = relieved_bytes(group);
  const auto is_relieved = [&](uint32_t begin, uint32_t end) {
    const uint64_t at_once = (uint64_t{1} + distances_.ahead + distances_.linger) * groups_[begin].largest_use;
    return passes_in_pieces(begin, end, is_persistent_) && at_once < num_bytes;
  };
  const bool before = is_relieved(first, group);
  const uint32_t linger = written_bytes(first, group) > 0 ? distances_.linger : 0;
  const uint32_t begin = before ? groups_[group].first_visit : groups_[group].last_visit + linger + 1;
  if (group + 1 < num_groups()) {
    const bool after = is_relieved(group + 1, last);
    const Group& next = groups_[group + 1];
    return {{begin, after ? next.last_visit : next.first_visit - distances_.ahead - 1, num_bytes}};
  }
  std::vector<Window> result;
  if (begin < num_visits_) result.push_back({begin, num_visits_ - 1, num_bytes});
  const uint32_t fetched = groups_[0].first_visit - (before ? 0 : std::min(distances_.ahead, groups_[0].first_visit));
  if (fetched > 0) result.push_back({0, fetched - 1, num_bytes});
  return result;
}

std::vector<Window> MovableItem::copies(uint32_t group) const {
  const Group &before = groups_[group], &after = groups_[group + 1 < num_groups() ? group + 1 : 0];
  std::vector<Window> result = {around(after.first_visit, after.first_visit, true, false, after.used_bytes)};
  if (before.written_bytes > 0)
    result.push_back(around(before.last_visit, before.last_visit, false, true, before.written_bytes));
  return result;
}

std::vector<uint32_t> MovableItem::leaving_visits() const {
  std::vector<uint32_t> visits;
  for (uint32_t g = 0; g < num_groups(); ++g) {
    const bool is_alone = (g == 0 || leaves_[g - 1]) && (g + 1 == num_groups() || leaves_[g]);
    if (is_alone && passes_in_pieces(g, g, rests()))
      for (uint32_t u = groups_[g].first_use; u < groups_[g].last_use; ++u)
        visits.push_back(item_.uses[u].visit);
    if (leaves_[g]) visits.push_back(groups_[g].last_visit);
  }
  return visits;
}

}  // namespace tessera::fit
