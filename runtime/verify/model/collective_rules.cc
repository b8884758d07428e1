// Collectives, on all ranks that take part at once. Ranks that are not walked are what their representative is, but for
// what they keep in their homes.
//
//     all_gather, all_to_all, broadcast   ranges come with what they hold on the rank that they come from
//     sums over stages                    put different addends together
//     sums over other axes                of the same addends of other tokens or tensors. Each axis with tokens counts
//                                         once; verify_placement knows the others
//
// What is of a rank's own tokens (values, their gradients, what is saved) is nothing on a rank with other tokens.
// Rows of a value are gathered to the whole, and a whole that is scattered is in rows. Cost: one of each collective's
// members that differ; of gathers, each member.

#include "verify/model/collective_rules.h"

#include <algorithm>
#include <optional>

#include "base/concat.h"

namespace tessera::host {
namespace {

class Collective {
 public:
  Collective(WalkedRanks& ranks, const std::vector<ActionRef>& members) : ranks_(ranks) {
    for (const ActionRef& member : members)
      places_[member.rank] = member.action;
  }

  void apply() {
    std::map<int, ContentParts> results;  // all are made of what was there before
    for (const auto& [rank, action] : places_)
      if (const Binding* destination = destination_of(rank)) results[rank] = result(rank, *destination);
    for (const auto& [rank, parts] : results) {
      put_scratch(rank);
      walk(rank).write(*destination_of(rank), parts);
    }
  }

 private:
  RankWalk& walk(int rank) const { return ranks_.walks.at(rank); }
  const Action& action_of(int rank) const { return walk(rank).program().actions[places_.at(rank)]; }
  CollectiveOperands form_of(int rank) const { return CollectiveOperands(walk(rank).program(), action_of(rank)); }
  const Binding* destination_of(int rank) const { return action_of(rank).find(TSR_SLOT(TSR_ROLE_DESTINATION, 0)); }
  const Group& group_of(int rank) const {
    return walk(rank).program().groups[static_cast<size_t>(action_of(rank).group)];
  }

  void put_scratch(int rank) const {
    for (const Binding& binding : action_of(rank).bindings)
      if (TSR_SLOT_ROLE(binding.slot) == TSR_ROLE_WORKSPACE) walk(rank).write(binding, Content{});
  }

  /// A range that `rank` takes from `member`, as `member` has it.
  ContentParts of_member(int rank, int member, const Binding& range) const {
    return taken(ranks_.mesh, rank, member,
                 ranks_.homes(member).resolve(walk(ranks_.classes.representative(member)).read(range)));
  }

  /// The same for a rank that has it in the same place afterwards. What both keep there alike stays named by its place:
  /// then it is right for the other ranks that `rank` is walked for, too.
  ContentParts of_member_at(int rank, int member, const Binding& range) const {
    const ContentParts kept = walk(ranks_.classes.representative(member)).read(range);
    ContentParts own = ranks_.homes(rank).resolve(kept), given = ranks_.homes(member).resolve(kept);
    return taken(ranks_.mesh, rank, member, own == given ? kept : std::move(given));
  }

  std::vector<int> members_with(int rank) const {
    return ranks_.mesh.members(group_of(rank), ranks_.mesh.coordinates(rank));
  }

  /// members_with(rank)[action.peer], without listing the others, which may be many.
  int root_of(int rank) const {
    const Group& group = group_of(rank);
    const int peer = action_of(rank).peer;
    if (group.axis == TSR_WORLD_AXIS) return peer;
    Coordinates root = ranks_.mesh.coordinates(rank);
    root[static_cast<size_t>(group.axis)] =
        group.coordinates.empty() ? peer : group.coordinates[static_cast<size_t>(peer)];
    return ranks_.mesh.rank(root);
  }

  /// Most broadcast contents were not kept, and are the same at every receiver.
  ContentParts broadcast(int rank) {
    const int root = root_of(rank);
    if (root != root_) {
      root_ = root;
      sent_ = walk(ranks_.classes.representative(root)).read(*given_by(root));
      is_kept_ = std::ranges::any_of(sent_, [](const ContentPart& p) { return p.content.kind == ContentKind::kept; });
    }
    return is_kept_ ? of_member_at(rank, root, *given_by(root)) : taken(ranks_.mesh, rank, root, sent_);
  }

  ContentParts result(int rank, const Binding& destination) {
    switch (action_of(rank).kind) {
      case TSR_ACTION_ALL_GATHER:
        return gathered(rank, destination, members_with(rank));
      case TSR_ACTION_BROADCAST:
        return broadcast(rank);
      case TSR_ACTION_ALL_TO_ALL:
        return exchanged(rank, members_with(rank));
      case TSR_ACTION_REDUCE_SCATTER:
        return scattered(rank, destination);
      default:
        return summed(rank);
    }
  }

  const Binding* given_by(int member) const {
    const int rank = ranks_.classes.representative(member);
    const Action& action = action_of(rank);
    const Binding* source = action.find(TSR_SLOT(TSR_ROLE_SOURCE, 0));
    return source ? source : action.find(TSR_SLOT(TSR_ROLE_DESTINATION, 0));
  }

  ContentParts gathered(int rank, const Binding& destination, const std::vector<int>& members) const {
    const auto offsets = slice_offsets(action_of(rank), destination.num_elements, static_cast<int>(members.size()));
    ContentParts all;
    for (size_t i = 0; i < members.size(); ++i) {
      Binding slice = *given_by(members[i]);
      if (form_of(ranks_.classes.representative(members[i])).in_place) {
        slice.offset += offsets[i];
        slice.num_elements = offsets[i + 1] - offsets[i];
      }
      ContentParts parts = of_member(rank, members[i], slice);
      for (ContentPart& part : parts)
        if (part.content.is_rows) {  // of the whole, they follow those of the members before
          part.content.is_rows = false;
          part.content.shift += static_cast<int64_t>(offsets[i]);
        }
      append_at(all, offsets[i], parts);
    }
    return all;
  }

  ContentParts exchanged(int rank, const std::vector<int>& members) const {
    ContentParts all;
    uint64_t at = 0;
    const int position = form_of(rank).position;
    for (const int member : members) {
      const int from = ranks_.classes.representative(member);
      const Binding& source = *given_by(member);
      const auto offsets = slice_offsets(action_of(from), source.num_elements, static_cast<int>(members.size()));
      const uint64_t begin = offsets[static_cast<size_t>(position)], end = offsets[static_cast<size_t>(position) + 1];
      append_at(all, at, slice(of_member(rank, member, source), begin, end));
      at += end - begin;
    }
    return all;
  }

  ContentParts scattered(int rank, const Binding& destination) {
    const CollectiveOperands form = form_of(rank);
    const uint64_t whole = form.given()->num_elements;
    const auto offsets = slice_offsets(action_of(rank), whole, form.num_ranks);
    const auto position = static_cast<size_t>(form.position);
    ContentParts own = slice(summed(rank), offsets[position], offsets[position + 1]);
    if (form.in_place) {  // the other slices are left as scratch
      ContentParts result{{0, offsets[position], {}}};
      append_at(result, offsets[position], own);
      append(result, {offsets[position + 1], whole - offsets[position + 1], {}});
      return result;
    }
    const bool splits_tensors = axis_splits(rank) == TSR_SPLITS_TENSORS;
    for (ContentPart& part : own)
      if (splits_tensors &&
          (part.content.kind == ContentKind::value || part.content.kind == ContentKind::value_gradient)) {
        part.content.is_rows = true;
        part.content.shift -= static_cast<int64_t>(destination.num_elements) * form.position;
      }
    return own;
  }

  uint32_t axis_splits(int rank) const {
    const int axis = group_of(rank).axis;
    return axis == TSR_WORLD_AXIS ? 0 : ranks_.mesh.axes()[static_cast<size_t>(axis)].splits;
  }

  /// Which stage a rank is of, by the first rank with its coordinates on the axes that split layers.
  int stage_of(int rank) const {
    if (std::ranges::count(ranks_.mesh.axes(), TSR_SPLITS_LAYERS, &Axis::splits) == 0) return 0;
    Coordinates stage = ranks_.mesh.coordinates(rank);
    for (size_t axis = 0; axis < stage.size(); ++axis)
      if (ranks_.mesh.axes()[axis].splits != TSR_SPLITS_LAYERS) stage[axis] = 0;
    return ranks_.mesh.rank(stage);
  }

  /// What a rank gives to a sum. Squares are of all of its homes, and their number in a rank is its own affair.
  ContentParts addends_of(int rank) const {
    ContentParts parts = of_member_at(places_.begin()->first, rank, *given_by(rank));
    for (ContentPart& part : parts) {
      if (part.content.kind != ContentKind::squares) continue;
      const Content all = walk(rank).all_squares();
      if (part.content.addends != all.addends)
        walk(rank).report(places_.at(rank), concat("sums the squares of ", ranks_.sets.set(part.content.addends).size(),
                                                   " of ", ranks_.sets.set(all.addends).size(), " homes"));
      part.content.addends = 0;
    }
    return parts;
  }

  /// The contributions of all members; `rank` is the first to take them.
  ContentParts sum_of_all(int rank) const {
    std::map<int, ContentParts> by_stage;
    for (const auto& [other, action] : places_) {
      ContentParts parts = addends_of(other);
      const auto [known, is_new] = by_stage.try_emplace(stage_of(other), parts);
      if (!is_new && known->second != parts) known->second = combined(rank, known->second, parts, false);
    }
    ContentParts sum = by_stage.begin()->second;
    for (auto stage = std::next(by_stage.begin()); stage != by_stage.end(); ++stage)
      sum = combined(rank, sum, stage->second, true);
    return sum;
  }

  ContentParts summed(int rank) {
    if (!sum_) sum_ = sum_of_all(rank);
    ContentParts sum = *sum_;
    for (ContentPart& part : sum) {
      if (part.content.kind == ContentKind::squares) part.content.addends = walk(rank).all_squares().addends;
      if (is_whole_on_each_rank(part.content.kind) && action_of(rank).kind == TSR_ACTION_REDUCE_SCATTER)
        walk(rank).report(places_.at(rank), concat("leaves each rank with a part of ", walk(rank).text(part.content),
                                                   ", of which all need the whole"));
      if (part.content.kind == ContentKind::loss || part.content.kind == ContentKind::correct ||
          part.content.kind == ContentKind::gradient)
        count_sum(rank, part.content);
      if (!completes(rank, part.content)) part.content = {};
    }
    return sum;
  }

  static bool is_whole_on_each_rank(ContentKind kind) {
    return kind == ContentKind::loss || kind == ContentKind::correct || kind == ContentKind::squares ||
           kind == ContentKind::run_words;
  }

  /// A stage without the loss takes part too: there verify_placement sees zeros, whatever the order of sums.
  void count_sum(int rank, Content& content) const {
    const Group& group = group_of(rank);
    const uint32_t over = group.coordinates.empty() ? axes_of_tokens(ranks_.mesh, group.axis) : 0;
    const uint32_t reduce = action_of(rank).reduce;
    if (content.kind == ContentKind::gradient && reduce == TSR_REDUCE_AVG)
      content.scale_by(1.0 / ranks_.mesh.num_members(group));
    else if (reduce != TSR_REDUCE_SUM)
      walk(rank).report(places_.at(rank),
                        concat("reduces ", walk(rank).text(content), " by something other than a sum"));
    if (content.summed & over)
      walk(rank).report(places_.at(rank), concat("sums ", walk(rank).text(content), " over the same tokens twice"));
    content.summed |= over;
  }

  /// Values are made whole over axes that split tensors, by the reduction that the model names.
  bool completes(int rank, const Content& content) const {
    if (content.kind != ContentKind::value && content.kind != ContentKind::value_gradient) return true;
    const uint32_t wanted = walk(rank).needs().reduction(content);
    if (axis_splits(rank) == TSR_SPLITS_TENSORS && action_of(rank).reduce == wanted) return true;
    walk(rank).report(places_.at(rank), concat("reduces ", walk(rank).text(content), ", which only a ",
                                               wanted == TSR_REDUCE_MAX ? "maximum" : "sum",
                                               " over an axis that splits tensors completes"));
    return false;
  }

  /// The sum of what two ranks give: of other addends if they are of different stages, else of the same.
  ContentParts combined(int rank, const ContentParts& a, const ContentParts& b, bool of_stages) const {
    ContentParts result;
    for (size_t i = 0, k = 0; i < a.size() && k < b.size();) {
      const uint64_t begin = std::max(a[i].offset, b[k].offset);
      const uint64_t a_end = a[i].offset + a[i].num_elements, b_end = b[k].offset + b[k].num_elements;
      append(result, {begin, std::min(a_end, b_end) - begin, combined(rank, a[i].content, b[k].content, of_stages)});
      if (a_end <= b_end) ++i;
      if (b_end <= a_end) ++k;
    }
    return result;
  }

  Content combined(int rank, const Content& a, const Content& b, bool of_stages) const {
    if (a.kind == ContentKind::opaque || b.kind == ContentKind::opaque) return {ContentKind::opaque};
    const bool is_shared = a.kind == ContentKind::squares || a.kind == ContentKind::run_words;
    if (a == b && (!of_stages || is_shared || a.kind == ContentKind::zero || a.kind == ContentKind::unknown)) return a;
    if (of_stages)
      if (const auto sum = sum_of(a, b, ranks_.sets)) return *sum;
    if (a.kind == ContentKind::unknown || b.kind == ContentKind::unknown) return {};
    walk(rank).report(places_.at(rank),
                      concat("sums ", walk(rank).text(a), " on one rank and ", walk(rank).text(b), " on another",
                             a == b ? ": each stage must add what the others do not" : ""));
    return {ContentKind::opaque};
  }

  WalkedRanks& ranks_;
  std::map<int, uint32_t> places_;  // the action of each representative
  std::optional<ContentParts> sum_;
  int root_ = -1;  // of the last broadcast
  ContentParts sent_;
  bool is_kept_ = false;
};

}  // namespace

ContentParts taken(const Mesh& mesh, int rank, int from, ContentParts parts) {
  if (mesh.data_rank(mesh.coordinates(rank)) == mesh.data_rank(mesh.coordinates(from))) return parts;
  for (ContentPart& part : parts)
    if (part.content.is_of_tokens()) part.content = {};
  return parts;
}

void apply_collective(WalkedRanks& ranks, const std::vector<ActionRef>& members) {
  Collective(ranks, members).apply();
}

}  // namespace tessera::host
