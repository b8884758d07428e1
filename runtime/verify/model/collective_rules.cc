// Collectives, on all ranks that take part at once. Ranks that are not walked are what their representative is, but for
// what they keep in their homes.
//
//     all_gather, all_to_all, broadcast   ranges come with what they hold on the rank that they come from
//     sums over stages                    put different addends together
//     sums over other axes                of the same addends of other tokens or tensors. Each axis with tokens counts
//                                         once; verify_placement knows the others
//
// What is of a rank's own tokens (values, their gradients, what is saved) is nothing on a rank with other tokens, and
// what is of its part of split tensors nothing on a rank with another part, unless the parts are joined or summed.
// Rows of a value are gathered to the whole, and a whole that is scattered is in rows. Cost: one of each collective's
// members that differ; of gathers, each member.

#include "verify/model/collective_rules.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "base/concat.h"
#include "verify/model/member.h"
#include "verify/model/slice_rules.h"
#include "verify/model/taken.h"

namespace tessera::host {
namespace {

class Collective {
 public:
  Collective(WalkedRanks& ranks, const std::vector<ActionRef>& members) : ranks_(ranks) {
    for (const ActionRef& member : members)
      members_.push_back({&ranks.walks.at(member.rank), member.action});
    std::ranges::sort(members_, {}, &Member::rank);
  }

  void apply() {
    std::vector<ContentParts> results(members_.size());  // all are made of what was there before
    for (size_t i = 0; i < members_.size(); ++i)
      if (const Binding* destination = members_[i].destination()) results[i] = result(members_[i], *destination);
    for (size_t i = 0; i < members_.size(); ++i)
      if (const Binding* destination = members_[i].destination()) {
        put_scratch(members_[i]);
        members_[i].walk->write(*destination, results[i]);
      }
  }

 private:
  /// The one that is walked for this rank of the group.
  const Member& walked_for(int rank) const {
    return *std::ranges::lower_bound(members_, ranks_.classes.representative(rank), {}, &Member::rank);
  }

  static void put_scratch(const Member& member) {
    for (const Binding& binding : member.action().bindings)
      if (TSR_SLOT_ROLE(binding.slot) == TSR_ROLE_WORKSPACE) member.walk->write(binding, Content{});
  }

  /// A range that a member takes from `rank`, as that one has it.
  ContentParts taken_of(const Member& member, int rank, const Binding& range) const {
    ContentParts parts = by_element(member, rank, walked_for(rank).walk->read(range));
    forget_own_slices(parts);
    parts = taken(ranks_.mesh, member.rank(), rank, std::move(parts));
    return is_of_others() ? of_all_tokens(std::move(parts)) : parts;
  }

  /// What `rank` keeps, by its elements. Along the group's axes all ranks get the same of it.
  ContentParts by_element(const Member& member, int rank, const ContentParts& held) const {
    ContentParts parts = member.walk->by_element(held, ranks_.homes(rank));
    for (ContentPart& part : parts)
      part.content.local &= ~axes_of_group(member);
    return parts;
  }

  ContentParts alone(const Member& member, int from, ContentParts parts) const {
    parts = taken(ranks_.mesh, member.rank(), from, std::move(parts));
    return taken_alone(member.walk->program(), other_axes(member, from), std::move(parts));
  }

  /// The axes on which a rank has other coordinates than a member, or than one of those that the member is walked for:
  /// what comes from the member itself is another rank's for these.
  uint32_t other_axes(const Member& member, int from) const {
    return differing_axes(ranks_.mesh, member.rank(), from) | (stands_for_others() ? axes_of_group(member) : 0);
  }

  /// The same for a member that has it in the same place afterwards. What all keep there alike stays named by its
  /// place: then it is right for the other ranks that the member is walked for, too.
  ContentParts taken_in_place(const Member& member, int rank, const Binding& range) const {
    ContentParts held = walked_for(rank).walk->read(range);
    if (any_is_kept(held)) {
      ContentParts given = by_element(member, rank, held);
      if (by_element(member, member.rank(), held) != given || has_others_slices(member, given)) held = std::move(given);
    }
    return taken(ranks_.mesh, member.rank(), rank, std::move(held));
  }

  /// Whether ranks of the group that the member is walked for keep other elements in these places.
  bool has_others_slices(const Member& member, const ContentParts& states) const {
    if (!stands_for_others()) return false;
    const uint32_t axes = axes_of_group(member);
    return std::ranges::any_of(states, [&](const ContentPart& part) {
      return part.content.is_sliced() && (member.walk->sliced_over(part.content.index, part.content.role) & axes);
    });
  }

  static uint32_t axes_of_group(const Member& member) {
    const int axis = member.group().axis;
    return axis == TSR_WORLD_AXIS ? ~0u : 1u << axis;
  }

  static bool any_is_kept(const ContentParts& parts) {
    return std::ranges::any_of(parts, [](const ContentPart& p) { return p.content.kind == ContentKind::kept; });
  }

  std::vector<int> ranks_with(const Member& member) const {
    return ranks_.mesh.members(member.group(), member.walk->program().coordinates);
  }

  /// Whether members are walked for others of the group, whose programs are equal.
  bool stands_for_others() const {
    return members_.size() < static_cast<size_t>(ranks_.mesh.num_members(members_.front().group()));
  }
  /// The same where these have other tokens: all of them receive what one of them has.
  bool is_of_others() const {
    return stands_for_others() && axes_of_tokens(ranks_.mesh, members_.front().group().axis) != 0;
  }

  /// Without what is of one rank's tokens.
  static ContentParts of_all_tokens(ContentParts parts) {
    for (ContentPart& part : parts)
      if (part.content.is_of_tokens()) part.content = {};
    return parts;
  }

  /// Most broadcast contents were not kept, and are the same at every receiver of the same tokens.
  ContentParts broadcast(const Member& member) {
    const int root = ranks_.mesh.member(member.group(), member.action().peer, member.walk->program().coordinates);
    if (root != root_) {
      root_ = root;
      sent_ = walked_for(root).walk->read(walked_for(root).given());
      is_kept_ = any_is_kept(sent_);
    }
    const bool replaces = (axes_of_group(member) & axes_that_diverge(member.walk->program())) != 0;
    if (is_kept_ && replaces && member.walk->program().purpose == TSR_PURPOSE_INIT) {
      member.report(concat("gives all ranks what rank ", root,
                           " has, and the layout lets it diverge: init leaves "
                           "values as they are, since a resumed run has filled in each rank's own"));
      return taken_in_place(member, member.rank(), member.given());
    }
    ContentParts parts;
    if (is_kept_ && has_other_states(member.walk->program(), other_axes(member, root)))
      parts = alone(member, root, by_element(member, root, sent_));
    else
      parts = is_kept_ ? taken_in_place(member, root, walked_for(root).given()) : alone(member, root, sent_);
    forget_own_slices(parts);
    return is_of_others() ? of_all_tokens(std::move(parts)) : parts;
  }

  ContentParts result(const Member& member, const Binding& destination) {
    switch (member.action().kind) {
      case TSR_ACTION_ALL_GATHER:
        return gathered(member, destination, ranks_with(member));
      case TSR_ACTION_BROADCAST:
        return broadcast(member);
      case TSR_ACTION_ALL_TO_ALL:
        return exchanged(member);
      case TSR_ACTION_REDUCE_SCATTER:
        return scattered(member);
      default:
        return summed(member);
    }
  }

  ContentParts gathered(const Member& member, const Binding& destination, const std::vector<int>& ranks) const {
    const auto offsets = slice_offsets(member.action(), destination.num_elements, static_cast<int>(ranks.size()));
    const bool joins_rows = axis_splits(member) == TSR_SPLITS_TENSORS && is_whole(member.group());
    ContentParts all;
    for (size_t i = 0; i < ranks.size(); ++i) {
      const Member& giver = walked_for(ranks[i]);
      Binding slice = giver.given();
      if (giver.operands().in_place) {
        slice.offset += offsets[i];
        slice.num_elements = offsets[i + 1] - offsets[i];
      }
      ContentParts parts = taken_of(member, ranks[i], slice);
      const ContentParts others = alone(member, ranks[i], parts);
      for (size_t k = 0; k < parts.size(); ++k)
        if (Content& content = parts[k].content; content.is_rows && joins_rows) {
          content.is_rows = false;
          content.shift += rows_before(member, content, static_cast<int>(i));
        } else {
          content = others[k].content;
        }
      append_at(all, offsets[i], parts);
    }
    return all;
  }

  /// What each rank gives is named once, and then cut for every position.
  ContentParts exchanged(const Member& member) const {
    using Offsets = std::vector<uint64_t>;
    const std::vector<int> ranks = ranks_with(member);
    const auto num_ranks = static_cast<int>(ranks.size());
    std::map<int, Offsets> offsets_of;                           // the slices of each rank that is walked
    std::vector<std::pair<ContentParts, const Offsets*>> given;  // by each rank of the group, all slices
    for (const int rank : ranks) {
      const Member& giver = walked_for(rank);
      const auto [entry, is_new] = offsets_of.try_emplace(giver.rank());
      if (is_new) entry->second = slice_offsets(giver.action(), giver.given().num_elements, num_ranks);
      given.emplace_back(alone(member, rank, taken_of(member, rank, giver.given())), &entry->second);
    }
    const auto got_by = [&](size_t position) {
      ContentParts all;
      uint64_t at = 0;
      for (const auto& [parts, offsets] : given) {
        const uint64_t begin = (*offsets)[position], end = (*offsets)[position + 1];
        append_at(all, at, slice(parts, begin, end));
        at += end - begin;
      }
      return all;
    };
    check_slices(member, got_by);
    return own_slice(member, got_by(static_cast<size_t>(member.operands().position)));
  }

  /// The elements of a value in the rows of the members before one: of the whole, its own follow those.
  static int64_t rows_before(const Member& member, const Content& content, int position) {
    const auto index = static_cast<size_t>(content.index);
    return static_cast<int64_t>(member.walk->program().model->values[index].num_elements) * position;
  }

  void check_slices(const Member& member, const SliceOf& slice_of) const {
    if (const auto rank = rank_with_other_slice(ranks_, *member.walk, ranks_with(member), slice_of))
      member.report(concat("gives rank ", *rank, " another slice than it owns, if rank ", member.rank(),
                           " gets its own, or one with other addends: in a job of so many ranks slices are in the "
                           "order of the coordinates"));
  }

  /// What check_slices() has found to be each rank's own.
  ContentParts own_slice(const Member& member, ContentParts parts) const {
    for (ContentPart& part : parts)
      if (part.content.is_sliced()) part.content.own |= axes_of_group(member);
    return parts;
  }

  ContentParts scattered(const Member& member) {
    const CollectiveOperands form = member.operands();
    const uint64_t whole = form.given()->num_elements;
    const auto offsets = slice_offsets(member.action(), whole, form.num_ranks);
    const auto position = static_cast<size_t>(form.position);
    const ContentParts sum = summed(member);
    ContentParts own = own_slice(member, slice(sum, offsets[position], offsets[position + 1]));
    check_slices(member, [&](size_t i) { return slice(sum, offsets[i], offsets[i + 1]); });
    if (form.in_place) {  // the other slices are left as scratch
      ContentParts result{{0, offsets[position], {}}};
      append_at(result, offsets[position], own);
      append(result, {offsets[position + 1], whole - offsets[position + 1], {}});
      return result;
    }
    if (axis_splits(member) != TSR_SPLITS_TENSORS) return own;
    own = in_rows(member, own, form.position);
    for (int i = 0; i < form.num_ranks && stands_for_others(); ++i)
      if (in_rows(member, slice(sum, offsets[static_cast<size_t>(i)], offsets[static_cast<size_t>(i) + 1]), i) != own) {
        member.report(concat("gives position ", i, " of the group other rows than its own, if position ", form.position,
                             " gets its own"));
        break;
      }
    return own;
  }

  /// A slice of values as the rows of the member at that position.
  static ContentParts in_rows(const Member& member, ContentParts parts, int position) {
    for (ContentPart& part : parts)
      if (part.content.kind == ContentKind::value || part.content.kind == ContentKind::value_gradient) {
        part.content.is_rows = true;
        part.content.shift -= rows_before(member, part.content, position);
      }
    return parts;
  }

  uint32_t axis_splits(const Member& member) const {
    const int axis = member.group().axis;
    return axis == TSR_WORLD_AXIS ? 0 : ranks_.mesh.axes()[static_cast<size_t>(axis)].splits;
  }

  /// Which stage a member is of, by the first rank with its coordinates on the axes that split layers.
  int stage_of(const Member& member) const {
    return ranks_.mesh.rank(ranks_.mesh.on_axes_that_split(TSR_SPLITS_LAYERS, member.walk->program().coordinates));
  }

  /// What a member gives to a sum. Squares are of all of its homes, and their number in a rank is its own affair.
  ContentParts addends_of(const Member& member) const {
    ContentParts parts = taken_in_place(members_.front(), member.rank(), member.given());
    for (ContentPart& part : parts) {
      if (part.content.kind != ContentKind::squares) continue;
      const Content all = member.walk->all_squares();
      if (part.content.addends != all.addends)
        member.report(concat("sums the squares of ", ranks_.sets.set(part.content.addends).size(), " of ",
                             ranks_.sets.set(all.addends).size(), " homes"));
      part.content.addends = 0;
    }
    return parts;
  }

  /// The part of the group's ranks that are walked by this member.
  double share_of(const Member& member) const {
    const std::vector<int> ranks = ranks_with(members_.front());
    const auto is_walked_here = [&](int rank) { return ranks_.classes.representative(rank) == member.rank(); };
    return static_cast<double>(std::ranges::count_if(ranks, is_walked_here)) / static_cast<double>(ranks.size());
  }

  /// The contributions of all members; `first` is the first to take them. A mean has the mean of their factors, so that
  /// ranks may have weights.
  ContentParts sum_of_all(const Member& first) const {
    std::map<int, ContentParts> by_stage;
    for (const Member& member : members_) {
      ContentParts parts = addends_of(member);
      bool has_means = false;
      for (ContentPart& part : parts)
        if (is_mean(member, part.content)) {
          has_means = true;
          part.content.scale_by(share_of(member));
        }
      const auto [known, is_new] = by_stage.try_emplace(stage_of(member), parts);
      if (!is_new && (has_means || known->second != parts))
        known->second = combined(first, known->second, parts, false);
    }
    ContentParts sum = by_stage.begin()->second;
    for (auto stage = std::next(by_stage.begin()); stage != by_stage.end(); ++stage)
      sum = combined(first, sum, stage->second, true);
    return is_of_others() ? of_all_tokens(std::move(sum)) : sum;
  }

  ContentParts summed(const Member& member) {
    if (!sum_) sum_ = sum_of_all(member);
    ContentParts sum = *sum_;
    for (ContentPart& part : sum) {
      if (part.content.kind == ContentKind::squares) part.content.addends = member.walk->all_squares().addends;
      if (is_whole_on_each_rank(part.content.kind) && member.action().kind == TSR_ACTION_REDUCE_SCATTER)
        member.report(concat("leaves each rank with a part of ", member.walk->text(part.content),
                             ", of which all need the whole"));
      if (part.content.kind == ContentKind::loss || part.content.kind == ContentKind::correct ||
          part.content.kind == ContentKind::gradient)
        count_sum(member, part.content);
      if (!completes(member, part.content)) part.content = {};
      if (part.content.kind == ContentKind::scalar)
        member.report(concat("reduces ", member.walk->text(part.content), ", which each rank has"));
      if (is_whole_on_each_rank(part.content.kind) && member.action().reduce != TSR_REDUCE_SUM)
        member.report(concat("reduces ", member.walk->text(part.content), " by something other than a sum"));
      check_average(member, part.content);
      if (is_mean(member, part.content)) mark_mean(member, part.content);
      const uint32_t reduce = member.action().reduce;
      if (member.walk->diverges() && part.content.is_state() && reduce != TSR_REDUCE_SUM && reduce != TSR_REDUCE_AVG)
        member.report(concat("takes the minimum or maximum of ", member.walk->text(part.content),
                             ", which the layout lets diverge; average what diverges"));
    }
    return sum;
  }

  /// Of replicas: as all of them have it. An evaluation may compute with it, and leave it nowhere.
  void mark_mean(const Member& member, Content& content) const {
    const Program& program = member.walk->program();
    if (program.purpose == TSR_PURPOSE_INIT)
      member.report(concat("averages ", member.walk->text(content), ": init leaves values as they are"));
    content.is_mean = is_whole(member.group()) && (axes_that_diverge(program) & ~axes_of_group(member)) == 0;
    if (program.purpose == TSR_PURPOSE_EVAL) content = {ContentKind::opaque};
  }

  /// An average of as many ranks as a power of two only moves the exponent. Parameters that diverge are averaged as
  /// their strategy likes.
  void check_average(const Member& member, const Content& content) const {
    const int num_ranks = ranks_.mesh.num_members(member.group());
    const bool is_exact = (num_ranks & (num_ranks - 1)) == 0 || content.kind == ContentKind::unknown ||
                          content.kind == ContentKind::zero || content.kind == ContentKind::opaque;
    if (member.action().reduce == TSR_REDUCE_AVG && !is_exact && !is_mean(member, content))
      member.report(concat("averages ", member.walk->text(content), " over ", num_ranks,
                           " ranks, which rounds; sum gradients, and average only parameters that diverge"));
  }

  static bool is_mean(const Member& member, const Content& content) {
    return member.action().reduce == TSR_REDUCE_AVG && member.walk->diverges() && content.is_state();
  }

  static bool is_whole_on_each_rank(ContentKind kind) {
    return kind == ContentKind::loss || kind == ContentKind::correct || kind == ContentKind::squares ||
           kind == ContentKind::run_words;
  }

  /// All ranks of its axis, listed or not.
  bool is_whole(const Group& group) const {
    return group.coordinates.empty() ||
           (group.axis != TSR_WORLD_AXIS && static_cast<int>(group.coordinates.size()) ==
                                                ranks_.mesh.axes()[static_cast<size_t>(group.axis)].num_ranks);
  }

  /// A stage without the loss takes part too: there verify_placement sees zeros, whatever the order of sums.
  void count_sum(const Member& member, Content& content) const {
    const Group& group = member.group();
    const uint32_t over = is_whole(group) ? axes_of_tokens(ranks_.mesh, group.axis) : 0;
    const uint32_t reduce = member.action().reduce;
    if (content.kind == ContentKind::gradient && reduce == TSR_REDUCE_AVG) {
      // Over axes that split tensors only verify_placement knows whether it is a sum, or the same on all ranks already.
      if (axis_splits(member) != TSR_SPLITS_TENSORS) content.scale_by(1.0 / ranks_.mesh.num_members(group));
    } else if (content.kind == ContentKind::gradient && reduce != TSR_REDUCE_SUM)
      member.report(concat("reduces ", member.walk->text(content), " by something other than a sum"));
    if (content.kind == ContentKind::gradient && TSR_DTYPE_BITS(member.dtype()) > 32)
      member.report(concat("sums ", member.walk->text(content), " in ", dtype_name(member.dtype()),
                           "; gradients are summed in ", dtype_name(TSR_F32), " or the job's --reduce-dtype"));
    if (content.summed & over)
      member.report(concat("sums ", member.walk->text(content), " over the same tokens twice"));
    if (content.kind == ContentKind::gradient) check_order(member, content, over);
    content.summed |= over;
    if (over != 0) content.is_sum_rounded = false;
  }

  /// A sum over several axes has the same bits under all strategies that leave gradients whole if the innermost axis is
  /// summed over first. Those that shard homes go before the others.
  void check_order(const Member& member, const Content& content, uint32_t over) const {
    for (const StrategyOnAxis& strategy : member.walk->program().strategies)
      if ((over >> strategy.axis & 1u) && (strategy.interface->flags & TSR_STRATEGY_SHARDS_HOMES)) return;
    const uint32_t wanted = member.walk->needs().gradient(content.index).summed;
    const uint32_t inner = over == 0 ? 0 : ~(over | (over - 1));  // bits above the lowest
    if (const uint32_t missing = inner & wanted & ~(content.summed | over))
      member.report(concat("sums ", member.walk->text(content), " over an axis before ",
                           ranks_.mesh.axes()[static_cast<size_t>(std::countr_zero(missing))].name,
                           ", which is further in; gradients are summed over the last axis of the mesh first"));
  }

  /// Values are made whole over axes that split tensors, by the reduction that the model names.
  bool completes(const Member& member, const Content& content) const {
    if (content.kind != ContentKind::value && content.kind != ContentKind::value_gradient) return true;
    const uint32_t wanted = member.walk->needs().reduction(content);
    if (axis_splits(member) == TSR_SPLITS_TENSORS && member.action().reduce == wanted) return true;
    member.report(concat("reduces ", member.walk->text(content), ", which only a ",
                         wanted == TSR_REDUCE_MAX ? "maximum" : "sum", " over an axis that splits tensors completes"));
    return false;
  }

  /// The sum of what two ranks give: of other addends if they are of different stages, else of the same.
  ContentParts combined(const Member& taker, const ContentParts& a, const ContentParts& b, bool of_stages) const {
    ContentParts result;
    for (size_t i = 0, k = 0; i < a.size() && k < b.size();) {
      const uint64_t begin = std::max(a[i].offset, b[k].offset);
      const uint64_t a_end = a[i].offset + a[i].num_elements, b_end = b[k].offset + b[k].num_elements;
      append(result, {begin, std::min(a_end, b_end) - begin, combined(taker, a[i].content, b[k].content, of_stages)});
      if (a_end <= b_end) ++i;
      if (b_end <= a_end) ++k;
    }
    return result;
  }

  Content combined(const Member& taker, const Content& a, const Content& b, bool of_stages) const {
    if (a.kind == ContentKind::opaque || b.kind == ContentKind::opaque) return {ContentKind::opaque};
    if (is_mean(taker, a) && is_mean(taker, b)) {
      Content mean = a;
      mean.factor = b.factor;
      if (mean == b) {
        mean.factor = a.factor + b.factor;
        mean.scale_by(1);
        return mean;
      }
    }
    const bool is_shared = a.kind == ContentKind::squares || a.kind == ContentKind::run_words;
    if (a == b && (!of_stages || is_shared || a.kind == ContentKind::zero || a.kind == ContentKind::unknown)) return a;
    if (of_stages)
      if (const auto sum = sum_of(a, b, ranks_.sets)) return *sum;
    if (a.kind == ContentKind::unknown || b.kind == ContentKind::unknown) return {};
    taker.report(concat("sums ", taker.walk->text(a), " on one rank and ", taker.walk->text(b), " on another",
                        a == b ? ": each stage must add what the others do not" : ""));
    return {ContentKind::opaque};
  }

  WalkedRanks& ranks_;
  std::vector<Member> members_;  // ascending by rank
  std::optional<ContentParts> sum_;
  int root_ = -1;  // of the last broadcast
  ContentParts sent_;
  bool is_kept_ = false;
};

}  // namespace

void apply_collective(WalkedRanks& ranks, const std::vector<ActionRef>& members) {
  Collective(ranks, members).apply();
}

}  // namespace tessera::host
