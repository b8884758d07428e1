// What reductions make of the contents of the ranks that take part in them.
#pragma once

#include <optional>

#include "verify/model/collective_members.h"

namespace tessera::host {

/// One reduction. Borrows its members.
class CollectiveSum {
 public:
  explicit CollectiveSum(const CollectiveMembers& members) : members_(members), ranks_(members.walked()) {}
  /// The whole, as a member takes it.
  ContentParts taken_by(const Member& member);

 private:
  int stage_of(const Member& member) const;
  double share_of(const Member& member) const;
  ContentParts addends_of(const Member& member) const;
  ContentParts sum_of_all(const Member& first) const;
  ContentParts combined(const Member& taker, const ContentParts& a, const ContentParts& b, bool of_stages) const;
  Content combined(const Member& taker, const Content& a, const Content& b, bool of_stages) const;
  void check_kind(const Member& member, const Content& content) const;
  void mark_mean(const Member& member, Content& content) const;
  void check_average(const Member& member, const Content& content) const;
  void count_sum(const Member& member, Content& content) const;
  void check_order(const Member& member, const Content& content, uint32_t over) const;
  bool completes(const Member& member, const Content& content) const;

  const CollectiveMembers& members_;
  const WalkedRanks& ranks_;
  std::optional<ContentParts> sum_;  // of all members, once it is known
};

}  // namespace tessera::host
