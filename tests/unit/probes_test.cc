// Probes have the results of their collectives, whatever the group, tell groups apart, and reveal in which order a
// communicator adds.
#include "exec/self_test/probes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "exec/self_test/forms.h"
#include "tessera/canonical_sum.hpp"
#include "tessera/collective.hpp"

namespace tessera::host {
namespace {

using Order = std::vector<int>;  // of members
using Block = std::vector<std::byte>;

std::vector<int> ranks_from_0(int num_members) {
  std::vector<int> ranks(static_cast<size_t>(num_members));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// The probes that `make` makes for each member.
template <class Make>
std::vector<Probe> of_members(const std::vector<int>& ranks, const Make& make) {
  std::vector<Probe> probes;
  for (int member = 0; member < static_cast<int>(ranks.size()); ++member)
    probes.push_back(make(ProbedGroup{ranks, member}));
  return probes;
}

/// Whether adding one after another in that order gives what the probes of all members expect.
bool passes(const std::vector<Probe>& probes, const Order& order) {
  for (uint64_t i = kSumFirstOrdered; i < kSumEnd; ++i) {
    float sum = number_at(probes[static_cast<size_t>(order[0])].before, i);
    for (size_t k = 1; k < order.size(); ++k)
      sum += number_at(probes[static_cast<size_t>(order[k])].before, i);
    if (sum != number_at(probes[0].after, i)) return false;
  }
  return true;
}

TEST(SumProbe, RevealsEveryOrder) {
  for (int n = 3; n <= 64; ++n) {
    Order order = ranks_from_0(n);
    const std::vector<Probe> probes =
        of_members(order, [](const ProbedGroup& group) { return sum_probe(group, false, false, true); });
    const bool is_tree = n == 3;  // (a + b) + c
    for (int shift = 0; shift < n; ++shift) {
      EXPECT_EQ(passes(probes, order), is_tree && (shift == 0)) << n << " members from " << shift;
      std::rotate(order.begin(), order.begin() + 1, order.end());
    }
    std::reverse(order.begin(), order.end());
    EXPECT_FALSE(passes(probes, order)) << n << " members from the last";
  }
}

TEST(SumProbe, ExpectsNoOrderOfThoseThatClaimNone) {
  const Probe probe = sum_probe({ranks_from_0(4), 1}, true, false, false);
  for (uint64_t i = 0; i < probe.after.size() / sizeof(float); ++i)
    EXPECT_EQ(!probe.is_defined[i * sizeof(float)], i >= kSumSends && i < kSumEnd) << i;
}

// Whole numbers are compared whatever the order.
TEST(SumProbe, TellsGroupsApart) {
  const auto sums = [](const std::vector<int>& ranks) {
    const Probe probe = sum_probe({ranks, 0}, false, false, false);
    std::vector<float> whole;
    for (uint64_t i = kSumFirst; i < kSumSends; ++i)
      whole.push_back(number_at(probe.after, i));
    return whole;
  };
  std::set<std::vector<float>> seen;
  for (int rank = 1; rank < 5000; ++rank)
    EXPECT_TRUE(seen.insert(sums({0, rank})).second) << rank;
  EXPECT_NE(sums({0, 3}), sums({1, 2}));
}

TEST(SumProbe, IsExactOverThousandsOfMembers) {
  std::vector<int> ranks = ranks_from_0(9000);
  const auto sums = [&] { return sum_probe({ranks, 0}, false, false, true).after; };
  const Block ascending = sums();
  std::reverse(ranks.begin(), ranks.end());
  const Block descending = sums();
  for (uint64_t i = kSumFirst; i < kSumSends; ++i)
    EXPECT_EQ(number_at(ascending, i), number_at(descending, i)) << i;
}

TEST(IntegerSumProbe, SumsAllElementsOfAllMembers) {
  constexpr uint64_t kNumElements = 24;
  const std::vector<Probe> probes =
      of_members({5, 2, 9}, [](const ProbedGroup& group) { return integer_sum_probe(group, kNumElements); });
  for (uint64_t i = 0; i < kNumElements; ++i) {
    const auto element = [&](const Block& block) {
      uint64_t value;
      std::memcpy(&value, &block[static_cast<uint64_t>(probes[0].send) + i * sizeof value], sizeof value);
      return value;
    };
    EXPECT_EQ(element(probes[1].after),
              element(probes[0].before) + element(probes[1].before) + element(probes[2].before));
    EXPECT_GT(element(probes[0].before) >> 32, 0u);
  }
}

/// The collective of these probes as communicator.h defines it, by loops.
class Reference {
 public:
  explicit Reference(const std::vector<Probe>& probes) : probes_(probes) {
    for (const Probe& probe : probes)
      blocks_.push_back(probe.before);
  }

  std::vector<Block> run() {
    for (size_t to = 0; to < probes_.size(); ++to)
      receive(to);
    return std::move(blocks_);
  }

 private:
  const tsr_collective& collective() const { return probes_[0].collective; }
  uint64_t element_bytes() const { return TSR_NUM_BYTES(collective().dtype, 1); }
  uint64_t count(const std::vector<uint64_t>& counts, size_t slice) const {
    return counts.empty() ? collective().num_elements : counts[slice];
  }
  uint64_t begin(const std::vector<uint64_t>& counts, size_t slice) const {
    uint64_t begin = 0;
    for (size_t i = 0; i < slice; ++i)
      begin += count(counts, i);
    return begin;
  }
  const std::byte* sent(size_t from, uint64_t element) const {
    return probes_[from].before.data() + probes_[from].send + element * element_bytes();
  }
  std::byte* received(size_t to, uint64_t element) {
    return blocks_[to].data() + probes_[to].recv + element * element_bytes();
  }
  void move(size_t to, uint64_t to_element, size_t from, uint64_t from_element, uint64_t num_elements) {
    std::memcpy(received(to, to_element), sent(from, from_element), num_elements * element_bytes());
  }
  void reduce(size_t to, uint64_t element, uint64_t num_elements) {
    std::vector<const void*> operands;
    for (size_t from = 0; from < probes_.size(); ++from)
      operands.push_back(sent(from, element));
    reduce_range(collective().dtype, collective().reduce, operands, received(to, 0), num_elements);
  }
  void receive(size_t to) {
    const auto& counts = probes_[to].counts;
    const auto root = static_cast<size_t>(collective().peer);
    switch (collective().kind) {
      case TSR_COLL_ALL_GATHER:
        for (size_t from = 0; from < probes_.size(); ++from)
          move(to, begin(counts, from), from, 0, count(counts, from));
        return;
      case TSR_COLL_REDUCE_SCATTER:
        return reduce(to, begin(counts, to), count(counts, to));
      case TSR_COLL_BROADCAST:
        return move(to, 0, root, 0, collective().num_elements);
      case TSR_COLL_REDUCE:
        if (to == root) reduce(to, 0, collective().num_elements);
        return;
      case TSR_COLL_ALL_TO_ALL:
        for (size_t from = 0; from < probes_.size(); ++from) {
          ASSERT_EQ(count(probes_[to].recv_counts, from), count(probes_[from].counts, to));
          move(to, begin(probes_[to].recv_counts, from), from, begin(probes_[from].counts, to),
               count(probes_[from].counts, to));
        }
        return;
      default:
        return reduce(to, 0, collective().num_elements);
    }
  }

  const std::vector<Probe>& probes_;
  std::vector<Block> blocks_;
};

void expect_results(const std::vector<Probe>& probes) {
  const std::vector<Block> results = Reference(probes).run();
  for (size_t m = 0; m < probes.size(); ++m) {
    const Probe& probe = probes[m];
    ASSERT_EQ(probe.before.size(), probe.after.size());
    ASSERT_EQ(probe.before.size(), probe.is_defined.size());
    for (size_t i = 0; i < probe.after.size(); ++i) {
      const float expected = number_at(probe.after, i / sizeof(float)), got = number_at(results[m], i / sizeof(float));
      const bool is_near = probe.tolerance > 0 && std::abs(got - expected) <= probe.tolerance * std::abs(expected);
      const bool is_right = !probe.is_defined[i] || results[m][i] == probe.after[i] || is_near;
      ASSERT_TRUE(is_right) << probe.name << ", byte " << i << " of member " << m;
    }
  }
}

/// Of every kind, in each dtype, with and without counts, from and to every root.
std::set<CollectiveForm> all_forms(int num_members) {
  std::set<CollectiveForm> forms;
  for (const tsr_dtype dtype : {TSR_F32, TSR_F64, TSR_BF16, TSR_F16, TSR_I8, TSR_I32, TSR_U8})
    for (const bool is_even : {true, false}) {
      forms.insert({TSR_COLL_ALL_GATHER, is_even, dtype, 0, -1});
      forms.insert({TSR_COLL_ALL_TO_ALL, is_even, dtype, 0, -1});
      for (const uint32_t reduce : {TSR_REDUCE_SUM, TSR_REDUCE_MIN, TSR_REDUCE_MAX, TSR_REDUCE_AVG}) {
        if (reduce == TSR_REDUCE_AVG && dtype != TSR_F32) continue;
        forms.insert({TSR_COLL_REDUCE_SCATTER, is_even, dtype, reduce, -1});
        forms.insert({TSR_COLL_ALL_REDUCE, true, dtype, reduce, -1});
        for (int root = 0; root < num_members; ++root)
          forms.insert({TSR_COLL_REDUCE, true, dtype, reduce, root});
      }
      for (int root = 0; root < num_members; ++root)
        forms.insert({TSR_COLL_BROADCAST, true, dtype, 0, root});
    }
  return forms;
}

TEST(FormProbes, HaveTheResultsOfTheirCollectives) {
  for (const std::vector<int>& ranks : {Order{0, 1}, Order{1, 3, 5}, Order{40, 1, 3000, 7, 2}})
    for (const CollectiveForm& form : all_forms(static_cast<int>(ranks.size())))
      for (size_t place = 0; place < form_probes(form, {ranks, 0}).size(); ++place)
        expect_results(of_members(ranks, [&](const ProbedGroup& group) { return form_probes(form, group)[place]; }));
}

// Of many members 16 bits hold the sum too.
TEST(FormProbes, AreExactInSixteenBits) {
  const std::vector<int> ranks = ranks_from_0(200);
  for (const uint32_t kind : {TSR_COLL_ALL_REDUCE, TSR_COLL_REDUCE_SCATTER})
    for (const tsr_dtype dtype : {TSR_BF16, TSR_F16})
      expect_results(of_members(ranks, [&](const ProbedGroup& group) {
        return form_probes({kind, true, dtype, TSR_REDUCE_SUM, -1}, group)[0];
      }));
}

// All numbers of a sum; of what is moved those that come from the other member.
TEST(FormProbes, TellGroupsApart) {
  for (const CollectiveForm& form : all_forms(3)) {
    if (form.reduce == TSR_REDUCE_MIN || form.reduce == TSR_REDUCE_MAX) continue;
    if (form.kind == TSR_COLL_BROADCAST && form.root != 1) continue;
    const auto results = [&](const std::vector<int>& ranks) {
      std::vector<Block> after;
      for (const Probe& probe :
           of_members(ranks, [&](const ProbedGroup& group) { return form_probes(form, group).back(); }))
        after.push_back(probe.after);
      return after;
    };
    EXPECT_NE(results({0, 2, 4}), results({0, 3, 4})) << collective_name(form.kind) << " of " << dtype_name(form.dtype);
  }
}

TEST(TestedForms, RevealMoreThanThoseThatAreUsed) {
  using Forms = std::vector<CollectiveForm>;
  EXPECT_EQ(tested_forms({{TSR_COLL_ALL_GATHER, true, TSR_BF16, 0, -1}}, 4),
            (Forms{{TSR_COLL_ALL_GATHER, false, TSR_F32, 0, -1}, {TSR_COLL_ALL_GATHER, true, TSR_BF16, 0, -1}}));
  EXPECT_EQ(tested_forms({{TSR_COLL_BROADCAST, true, TSR_F32, 0, 0}}, 4),
            (Forms{{TSR_COLL_BROADCAST, true, TSR_F32, 0, 0}, {TSR_COLL_BROADCAST, true, TSR_F32, 0, 3}}));
  // What has a probe of its own, and what is rounded.
  EXPECT_EQ(tested_forms({{TSR_COLL_ALL_REDUCE, true, TSR_I64, TSR_REDUCE_SUM, -1},
                          {TSR_COLL_ALL_REDUCE, true, TSR_BF16, TSR_REDUCE_AVG, -1},
                          {TSR_COLL_SEND, true, TSR_F32, 0, -1},
                          {TSR_COLL_BARRIER, true, TSR_U8, 0, -1}},
                         4),
            Forms{});
}

TEST(TestedForms, AreASelectionOfVeryMany) {
  std::set<CollectiveForm> used;
  for (int root = 0; root < 1000; ++root)
    used.insert({TSR_COLL_REDUCE, true, TSR_F32, TSR_REDUCE_SUM, root});
  const std::vector<CollectiveForm> tested = tested_forms(used, 1000);
  EXPECT_EQ(tested.front().root, 0);
  EXPECT_EQ(tested.back().root, 999);
  EXPECT_LE(tested.size(), 8u);
  EXPECT_LE(tested_forms(all_forms(8), 8).size(), 16u);
}

}  // namespace
}  // namespace tessera::host
