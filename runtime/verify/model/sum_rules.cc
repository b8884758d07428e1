// Reductions, of all ranks that take part at once.
//
//     over stages        put different addends together
//     over other axes    add the same addends of other tokens or tensors. Each axis with tokens counts once;
//                        verify_placement knows the others
//
// Of ranks that are walked together each gives its share of an average: replicas may have weights. Cost: one of each
// collective's members that differ.

#include "verify/model/sum_rules.h"

#include <algorithm>
#include <bit>
#include <map>

#include "base/concat.h"
#include "verify/model/taken.h"

namespace tessera::host {
namespace {

bool is_mean(const Member& member, const Content& content) {
  return member.action().reduce == TSR_REDUCE_AVG && member.walk->diverges() && content.is_state();
}

bool is_whole_on_each_rank(ContentKind kind) {
  return kind == ContentKind::loss || kind == ContentKind::correct || kind == ContentKind::squares ||
         kind == ContentKind::run_words;
}

}  // namespace

/// Which stage a member is of, by the first rank with its coordinates on the axes that split layers.
int CollectiveSum::stage_of(const Member& member) const {
  return ranks_.mesh.rank(ranks_.mesh.on_axes_that_split(TSR_SPLITS_LAYERS, member.walk->program().coordinates));
}

/// What a member gives to a sum. Squares are of all of its homes, and their number in a rank is its own affair.
ContentParts CollectiveSum::addends_of(const Member& member) const {
  ContentParts parts = members_.taken_in_place(members_.all().front(), member.rank(), member.given());
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
double CollectiveSum::share_of(const Member& member) const {
  const std::vector<int> ranks = members_.ranks_with(members_.all().front());
  const auto is_walked_here = [&](int rank) { return ranks_.classes.representative(rank) == member.rank(); };
  return static_cast<double>(std::ranges::count_if(ranks, is_walked_here)) / static_cast<double>(ranks.size());
}

/// The contributions of all members; `first` is the first to take them. A mean has the mean of their factors, so that
/// ranks may have weights.
ContentParts CollectiveSum::sum_of_all(const Member& first) const {
  std::map<int, ContentParts> by_stage;
  for (const Member& member : members_.all()) {
    ContentParts parts = addends_of(member);
    bool has_means = false;
    for (ContentPart& part : parts)
      if (is_mean(member, part.content)) {
        has_means = true;
        part.content.scale_by(share_of(member));
      }
    const auto [known, is_new] = by_stage.try_emplace(stage_of(member), parts);
    if (!is_new && (has_means || known->second != parts)) known->second = combined(first, known->second, parts, false);
  }
  ContentParts sum = by_stage.begin()->second;
  for (auto stage = std::next(by_stage.begin()); stage != by_stage.end(); ++stage)
    sum = combined(first, sum, stage->second, true);
  return members_.received_by_all(std::move(sum));
}

ContentParts CollectiveSum::taken_by(const Member& member) {
  if (!sum_) sum_ = sum_of_all(member);
  ContentParts sum = *sum_;
  for (ContentPart& part : sum) {
    Content& content = part.content;
    check_kind(member, content);
    if (content.kind == ContentKind::squares) content.addends = member.walk->all_squares().addends;
    if (content.kind == ContentKind::loss || content.kind == ContentKind::correct ||
        content.kind == ContentKind::gradient)
      count_sum(member, content);
    if (!completes(member, content)) content = {};
    check_average(member, content);
    if (is_mean(member, content)) mark_mean(member, content);
  }
  return sum;
}

/// What is not to be reduced, or not so.
void CollectiveSum::check_kind(const Member& member, const Content& content) const {
  const uint32_t reduce = member.action().reduce;
  if (content.kind == ContentKind::scalar)
    member.report(concat("reduces ", member.walk->text(content), ", which each rank has"));
  if (is_whole_on_each_rank(content.kind) && member.action().kind == TSR_ACTION_REDUCE_SCATTER)
    member.report(
        concat("leaves each rank with a part of ", member.walk->text(content), ", of which all need the whole"));
  if (is_whole_on_each_rank(content.kind) && reduce != TSR_REDUCE_SUM)
    member.report(concat("reduces ", member.walk->text(content), " by something other than a sum"));
  if (member.walk->diverges() && content.is_state() && reduce != TSR_REDUCE_SUM && reduce != TSR_REDUCE_AVG)
    member.report(concat("takes the minimum or maximum of ", member.walk->text(content),
                         ", which the layout lets diverge; average what diverges"));
}

/// Of replicas: as all of them have it. An evaluation may compute with it, and leave it nowhere.
void CollectiveSum::mark_mean(const Member& member, Content& content) const {
  const Program& program = member.walk->program();
  if (program.purpose == TSR_PURPOSE_INIT)
    member.report(concat("averages ", member.walk->text(content), ": init leaves values as they are"));
  content.is_mean = members_.is_whole(member.group()) && (member.walk->axes_of_states().replicas & ~member.axes()) == 0;
  if (program.purpose == TSR_PURPOSE_EVAL) content = {ContentKind::opaque};
}

/// An average of as many ranks as a power of two only moves the exponent. Parameters that diverge are averaged as
/// their strategy likes.
void CollectiveSum::check_average(const Member& member, const Content& content) const {
  const int num_ranks = ranks_.mesh.num_members(member.group());
  const bool is_exact = (num_ranks & (num_ranks - 1)) == 0 || content.kind == ContentKind::unknown ||
                        content.kind == ContentKind::zero || content.kind == ContentKind::opaque;
  if (member.action().reduce == TSR_REDUCE_AVG && !is_exact && !is_mean(member, content))
    member.report(concat("averages ", member.walk->text(content), " over ", num_ranks,
                         " ranks, which rounds; sum gradients, and average only parameters that diverge"));
  if (member.action().reduce == TSR_REDUCE_AVG && content.kind == ContentKind::gradient && member.dtype() == TSR_F16)
    member.report(concat("averages ", member.walk->text(content), " in fp16, which loses small values; sum it"));
}

/// A stage without the loss takes part too: there verify_placement sees zeros, whatever the order of sums.
void CollectiveSum::count_sum(const Member& member, Content& content) const {
  const Group& group = member.group();
  const uint32_t over = members_.is_whole(group) ? axes_of_tokens(ranks_.mesh, group.axis) : 0;
  const uint32_t reduce = member.action().reduce;
  if (content.kind == ContentKind::gradient && reduce == TSR_REDUCE_AVG) {
    // Over axes that split tensors only verify_placement knows whether it is a sum, or the same on all ranks already.
    if (members_.axis_splits(member.group()) != TSR_SPLITS_TENSORS)
      content.scale_by(1.0 / ranks_.mesh.num_members(group));
  } else if (content.kind == ContentKind::gradient && reduce != TSR_REDUCE_SUM)
    member.report(concat("reduces ", member.walk->text(content), " by something other than a sum"));
  if (content.kind == ContentKind::gradient && TSR_DTYPE_BITS(member.dtype()) > 32)
    member.report(concat("sums ", member.walk->text(content), " in ", dtype_name(member.dtype()),
                         "; gradients are summed in ", dtype_name(TSR_F32), " or the job's --reduce-dtype"));
  if (content.summed & over) member.report(concat("sums ", member.walk->text(content), " over the same tokens twice"));
  if (content.kind == ContentKind::gradient) check_order(member, content, over);
  content.summed |= over;
  if (over != 0) content.is_sum_rounded = false;
}

/// A sum over several axes has the same bits under all strategies that leave gradients whole if the innermost axis is
/// summed over first. Those that shard homes go before the others.
void CollectiveSum::check_order(const Member& member, const Content& content, uint32_t over) const {
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
bool CollectiveSum::completes(const Member& member, const Content& content) const {
  if (content.kind != ContentKind::value && content.kind != ContentKind::value_gradient) return true;
  const uint32_t wanted = member.walk->needs().reduction(content);
  if (members_.axis_splits(member.group()) == TSR_SPLITS_TENSORS && member.action().reduce == wanted) return true;
  member.report(concat("reduces ", member.walk->text(content), ", which only a ",
                       wanted == TSR_REDUCE_MAX ? "maximum" : "sum", " over an axis that splits tensors completes"));
  return false;
}

/// The sum of what two ranks give: of other addends if they are of different stages, else of the same.
ContentParts CollectiveSum::combined(const Member& taker, const ContentParts& a, const ContentParts& b,
                                     bool of_stages) const {
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

Content CollectiveSum::combined(const Member& taker, const Content& a, const Content& b, bool of_stages) const {
  if (a.kind == ContentKind::opaque || b.kind == ContentKind::opaque) return sum_with_made(a, b, ranks_.sets);
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

}  // namespace tessera::host
