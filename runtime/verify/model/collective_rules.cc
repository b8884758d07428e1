// Collectives, on all ranks that take part at once. Ranks that are not walked are what their representative is, but for
// what they keep in their homes.
//
//     all_gather, all_to_all, broadcast   ranges come with what they hold on the rank that they come from
//     reduce_scatter                      slices of a sum (sum_rules.cc)
//
// Rows of a value are gathered to the whole, and a whole that is scattered is in rows. Cost: one of each collective's
// members that differ; of gathers, each member; of an all_to_all, each pair of them.

#include "verify/model/collective_rules.h"

#include <map>
#include <utility>

#include "base/concat.h"
#include "verify/model/collective_members.h"
#include "verify/model/slice_rules.h"
#include "verify/model/sum_rules.h"
#include "verify/model/taken.h"

namespace tessera::host {
namespace {

class Collective {
 public:
  Collective(const WalkedRanks& ranks, const std::vector<ActionRef>& members)
      : ranks_(ranks), members_(ranks, members) {}

  void apply() {
    const std::vector<Member>& members = members_.all();
    std::vector<ContentParts> results(members.size());  // all are made of what was there before
    for (size_t i = 0; i < members.size(); ++i)
      if (const Binding* destination = members[i].destination()) results[i] = result(members[i], *destination);
    for (size_t i = 0; i < members.size(); ++i)
      if (const Binding* destination = members[i].destination()) {
        put_scratch(members[i]);
        members[i].walk->write(*destination, results[i]);
      }
  }

 private:
  static void put_scratch(const Member& member) {
    for (const Binding& binding : member.action().bindings)
      if (TSR_SLOT_ROLE(binding.slot) == TSR_ROLE_WORKSPACE) member.walk->write(binding, Content{});
  }

  /// Most broadcast contents were not kept, and are the same at every receiver of the same tokens.
  ContentParts broadcast(const Member& member) {
    const int root = ranks_.mesh.member(member.group(), member.action().peer, member.walk->program().coordinates);
    if (root != root_) {
      root_ = root;
      sent_ = members_.walked_for(root).walk->read(members_.walked_for(root).given());
      is_kept_ = any_is_kept(sent_);
    }
    const AxesOfStates& of_states = member.walk->axes_of_states();
    const bool replaces = (member.axes() & of_states.replicas) != 0;
    if (is_kept_ && replaces && member.walk->program().purpose == TSR_PURPOSE_INIT) {
      member.report(concat("gives all ranks what rank ", root,
                           " has, and the layout lets it diverge: init leaves "
                           "values as they are, since a resumed run has filled in each rank's own"));
      return members_.taken_in_place(member, member.rank(), member.given());
    }
    ContentParts parts;
    if (is_kept_ && (members_.other_axes(member, root) & (of_states.parts | of_states.replicas)))
      parts = members_.alone(member, root, members_.by_element(member, root, sent_));
    else
      parts = is_kept_ ? members_.taken_in_place(member, root, members_.walked_for(root).given())
                       : members_.alone(member, root, sent_);
    forget_own_slices(parts);
    return members_.received_by_all(std::move(parts));
  }

  ContentParts result(const Member& member, const Binding& destination) {
    switch (member.action().kind) {
      case TSR_ACTION_ALL_GATHER:
        return gathered(member, destination, members_.ranks_with(member));
      case TSR_ACTION_BROADCAST:
        return broadcast(member);
      case TSR_ACTION_ALL_TO_ALL:
        return exchanged(member);
      case TSR_ACTION_REDUCE_SCATTER:
        return scattered(member);
      default:
        return sum_.taken_by(member);
    }
  }

  ContentParts gathered(const Member& member, const Binding& destination, const std::vector<int>& ranks) const {
    const auto offsets = slice_offsets(member.action(), destination.num_elements, static_cast<int>(ranks.size()));
    const bool joins_rows =
        members_.axis_splits(member.group()) == TSR_SPLITS_TENSORS && members_.is_whole(member.group());
    ContentParts all;
    for (size_t i = 0; i < ranks.size(); ++i) {
      const Member& giver = members_.walked_for(ranks[i]);
      Binding slice = giver.given();
      if (giver.operands().in_place) {
        slice.offset += offsets[i];
        slice.num_elements = offsets[i + 1] - offsets[i];
      }
      ContentParts parts = members_.taken_of(member, ranks[i], slice);
      const ContentParts others = members_.alone(member, ranks[i], parts);
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
    const std::vector<int> ranks = members_.ranks_with(member);
    const auto num_ranks = static_cast<int>(ranks.size());
    std::map<int, Offsets> offsets_of;                           // the slices of each rank that is walked
    std::vector<std::pair<ContentParts, const Offsets*>> given;  // by each rank of the group, all slices
    for (const int rank : ranks) {
      const Member& giver = members_.walked_for(rank);
      const auto [entry, is_new] = offsets_of.try_emplace(giver.rank());
      if (is_new) entry->second = slice_offsets(giver.action(), giver.given().num_elements, num_ranks);
      given.emplace_back(members_.alone(member, rank, members_.taken_of(member, rank, giver.given())), &entry->second);
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
    if (const auto rank = rank_with_other_slice(ranks_, *member.walk, members_.ranks_with(member), slice_of))
      member.report(concat("gives rank ", *rank, " another slice than it owns, if rank ", member.rank(),
                           " gets its own, or one with other addends: in a job of so many ranks slices are in the "
                           "order of the coordinates"));
  }

  /// What check_slices() has found to be each rank's own.
  ContentParts own_slice(const Member& member, ContentParts parts) const {
    for (ContentPart& part : parts)
      if (part.content.is_sliced()) part.content.own |= member.axes();
    return parts;
  }

  ContentParts scattered(const Member& member) {
    const CollectiveOperands form = member.operands();
    const uint64_t whole = form.given()->num_elements;
    const auto offsets = slice_offsets(member.action(), whole, form.num_ranks);
    const auto position = static_cast<size_t>(form.position);
    const ContentParts sum = sum_.taken_by(member);
    ContentParts own = own_slice(member, slice(sum, offsets[position], offsets[position + 1]));
    check_slices(member, [&](size_t i) { return slice(sum, offsets[i], offsets[i + 1]); });
    if (form.in_place) {  // the other slices are left as scratch
      ContentParts result{{0, offsets[position], {}}};
      append_at(result, offsets[position], own);
      append(result, {offsets[position + 1], whole - offsets[position + 1], {}});
      return result;
    }
    if (members_.axis_splits(member.group()) != TSR_SPLITS_TENSORS) return own;
    own = in_rows(member, own, form.position);
    for (int i = 0; i < form.num_ranks && members_.stands_for_others(); ++i)
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

  const WalkedRanks& ranks_;
  const CollectiveMembers members_;
  CollectiveSum sum_{members_};
  int root_ = -1;  // of the last broadcast
  ContentParts sent_;
  bool is_kept_ = false;
};

}  // namespace

void apply_collective(const WalkedRanks& ranks, const std::vector<ActionRef>& members) {
  Collective(ranks, members).apply();
}

}  // namespace tessera::host
