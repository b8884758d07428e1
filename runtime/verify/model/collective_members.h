// The walked ranks that take part in a collective, and what they take of one another.
#pragma once

#include <string>
#include <vector>

#include "program/collective_operands.h"
#include "verify/collective_matching.h"
#include "verify/model/walked_ranks.h"

namespace tessera::host {

/// A walked rank that takes part, and the action by which it does.
struct Member {
  RankWalk* walk;
  uint32_t index;

  int rank() const { return walk->rank(); }
  const Action& action() const { return walk->program().actions[index]; }
  const Group& group() const { return walk->program().groups[static_cast<size_t>(action().group)]; }
  CollectiveOperands operands() const { return CollectiveOperands(walk->program(), action()); }
  const Binding* destination() const { return action().find(kDestination); }
  /// What it gives to the others.
  const Binding& given() const {
    const Binding* source = action().find(kSource);
    return source ? *source : *destination();
  }
  tsr_dtype dtype() const { return walk->program().buffer(given().buffer).dtype; }
  /// The axes of its group, as bits.
  uint32_t axes() const { return group().axis == TSR_WORLD_AXIS ? ~0u : 1u << group().axis; }
  void report(const std::string& what) const { walk->report(index, what); }
};

/// Ascending by rank. Borrows the ranks.
class CollectiveMembers {
 public:
  CollectiveMembers(const WalkedRanks& ranks, const std::vector<ActionRef>& members);

  const WalkedRanks& walked() const { return ranks_; }
  const std::vector<Member>& all() const { return members_; }
  /// The one that is walked for this rank of the group.
  const Member& walked_for(int rank) const;
  /// The ranks of a member's group.
  std::vector<int> ranks_with(const Member& member) const;
  /// Whether these are all ranks of the axis, listed or not.
  bool is_whole(const Group& group) const;
  /// What the axis of the group splits (TSR_SPLITS_*); 0: it is the world.
  uint32_t axis_splits(const Group& group) const;
  /// Whether members are walked for others of the group, whose programs are equal.
  bool stands_for_others() const;
  /// The axes on which a rank has other coordinates than a member, or than one of those that the member is walked for:
  /// what comes from the member itself is another rank's for these.
  uint32_t other_axes(const Member& member, int from) const;

  /// What `rank` keeps, by its elements. Along the group's axes all ranks get the same of it.
  ContentParts by_element(const Member& member, int rank, const ContentParts& held) const;
  /// A range that a member takes from `rank`, as that one has it.
  ContentParts taken_of(const Member& member, int rank, const Binding& range) const;
  /// The same for a member that has it in the same place afterwards. What all keep there alike stays named by its
  /// place: then it is right for the other ranks that the member is walked for, too.
  ContentParts taken_in_place(const Member& member, int rank, const Binding& range) const;
  /// What a member has of parts from one rank that are not joined with those of others (taken_alone).
  ContentParts alone(const Member& member, int from, ContentParts parts) const;
  /// Of parts that all ranks receive: without one rank's tokens, where members are walked for ranks with others.
  ContentParts received_by_all(ContentParts parts) const;

 private:
  bool has_others_slices(const Member& member, const ContentParts& states) const;

  const WalkedRanks& ranks_;
  std::vector<Member> members_;
};

bool any_is_kept(const ContentParts& parts);

}  // namespace tessera::host
