// What is of a rank's own tokens, or of its part of split tensors, is nothing on a rank with others (taken.cc). A
// member that is walked for others is at both ends of what they exchange. Under fsdp on 1,024 ranks rank 0 is all
// members of
//
//     41    comm.dp.gather    all_gather group=dp  r %9 src  w %24 dst      position 5 of %24: what rank 5 keeps at %9
//
// and what a rank keeps is named by its own homes. Cost: linear in the pieces of a range.

#include "verify/model/collective_members.h"

#include <algorithm>

#include "verify/model/taken.h"

namespace tessera::host {

CollectiveMembers::CollectiveMembers(const WalkedRanks& ranks, const std::vector<ActionRef>& members) : ranks_(ranks) {
  for (const ActionRef& member : members)
    members_.push_back({&ranks.walks.at(member.rank), member.action});
  std::ranges::sort(members_, {}, &Member::rank);
}

const Member& CollectiveMembers::walked_for(int rank) const {
  return *std::ranges::lower_bound(members_, ranks_.classes.representative(rank), {}, &Member::rank);
}

std::vector<int> CollectiveMembers::ranks_with(const Member& member) const {
  return ranks_.mesh.members(member.group(), member.walk->program().coordinates);
}

bool CollectiveMembers::is_whole(const Group& group) const {
  return group.coordinates.empty() ||
         (group.axis != TSR_WORLD_AXIS &&
          static_cast<int>(group.coordinates.size()) == ranks_.mesh.axes()[static_cast<size_t>(group.axis)].num_ranks);
}

uint32_t CollectiveMembers::axis_splits(const Group& group) const {
  return group.axis == TSR_WORLD_AXIS ? 0 : ranks_.mesh.axes()[static_cast<size_t>(group.axis)].splits;
}

bool CollectiveMembers::stands_for_others() const {
  return members_.size() < static_cast<size_t>(ranks_.mesh.num_members(members_.front().group()));
}

uint32_t CollectiveMembers::other_axes(const Member& member, int from) const {
  return differing_axes(ranks_.mesh, member.rank(), from) | (stands_for_others() ? member.axes() : 0);
}

ContentParts CollectiveMembers::by_element(const Member& member, int rank, const ContentParts& held) const {
  ContentParts parts = member.walk->by_element(held, ranks_.homes(rank));
  for (ContentPart& part : parts)
    part.content.local &= ~member.axes();
  return parts;
}

ContentParts CollectiveMembers::taken_of(const Member& member, int rank, const Binding& range) const {
  ContentParts parts = by_element(member, rank, walked_for(rank).walk->read(range));
  forget_own_slices(parts);
  return received_by_all(taken(ranks_.mesh, member.rank(), rank, std::move(parts)));
}

ContentParts CollectiveMembers::taken_in_place(const Member& member, int rank, const Binding& range) const {
  ContentParts held = walked_for(rank).walk->read(range);
  if (any_is_kept(held)) {
    ContentParts given = by_element(member, rank, held);
    if (by_element(member, member.rank(), held) != given || has_others_slices(member, given)) held = std::move(given);
  }
  return taken(ranks_.mesh, member.rank(), rank, std::move(held));
}

/// Whether ranks of the group that the member is walked for keep other elements in these places.
bool CollectiveMembers::has_others_slices(const Member& member, const ContentParts& states) const {
  return stands_for_others() && std::ranges::any_of(states, [&](const ContentPart& part) {
           return part.content.is_sliced() &&
                  (member.walk->sliced_over(part.content.index, part.content.role) & member.axes());
         });
}

ContentParts CollectiveMembers::alone(const Member& member, int from, ContentParts parts) const {
  parts = taken(ranks_.mesh, member.rank(), from, std::move(parts));
  return taken_alone(*member.walk->program().model, member.walk->axes_of_states(), other_axes(member, from),
                     std::move(parts));
}

ContentParts CollectiveMembers::received_by_all(ContentParts parts) const {
  const bool is_of_others = stands_for_others() && axes_of_tokens(ranks_.mesh, members_.front().group().axis) != 0;
  for (ContentPart& part : parts)
    if (is_of_others && part.content.is_of_tokens()) part.content = {};
  return parts;
}

bool any_is_kept(const ContentParts& parts) {
  return std::ranges::any_of(parts, [](const ContentPart& p) { return p.content.kind == ContentKind::kept; });
}

}  // namespace tessera::host
