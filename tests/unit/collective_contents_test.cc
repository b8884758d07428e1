// What one collective leaves on the ranks of small programs made by hand, in the words of the model.
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>

#include "support/expect_diagnostic.h"
#include "support/program_builder.h"
#include "verify/model/collective_rules.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr uint64_t kElements = 64;

/// Ranks whose programs end with a collective.
class Ranks {
 public:
  /// If they are alike, the first is walked for all.
  Ranks(std::vector<Axis> axes, bool are_alike, const std::function<void(Program&)>& build)
      : mesh_(std::move(axes)),
        classes_(are_alike ? RankClasses(mesh_, std::span<const StrategyOnAxis>()) : RankClasses(mesh_)) {
    context_.diagnostics = &diagnostics_;
    for (int rank = 0; rank < mesh_.num_ranks(); ++rank) {
      programs_.push_back(empty_program(model_, mesh_, mesh_.coordinates(rank)));
      build(programs_.back());
      tables_.emplace(rank, HomeTable(programs_.back(), context_.buffers));
    }
    for (const auto& [rank, members] : classes_.members()) {
      uint32_t walked_axes = 0;
      for (const int member : members)
        walked_axes |= differing_axes(mesh_, rank, member);
      const KeptContents none;
      const Program& program = programs_[static_cast<size_t>(rank)];
      walks_.try_emplace(rank, program, rank, tables_.at(rank), none, walked_axes, context_);
    }
  }

  RankWalk& walk(int rank) { return walks_.at(rank); }
  Diagnostics findings() { return diagnostics_.take(); }

  /// The last action, on the ranks of its group.
  void apply() {
    std::vector<ActionRef> members;
    for (const auto& [rank, walk] : walks_) {
      const auto index = static_cast<uint32_t>(walk.program().actions.size() - 1);
      const Group& group = walk.program().groups[static_cast<size_t>(walk.program().actions[index].group)];
      if (mesh_.position(group, walk.program().coordinates) >= 0) members.push_back({rank, index});
    }
    apply_collective(WalkedRanks{mesh_, classes_, walks_, homes_, context_.sets}, members);
  }

  /// What a rank then has in the destination.
  ContentParts result(int rank) { return walk(rank).read(*walk(rank).program().actions.back().find(kDestination)); }

 private:
  const Model model_ = toy_model();
  const Mesh mesh_;
  const RankClasses classes_;
  DiagnosticList diagnostics_;
  WalkContext context_;
  std::deque<Program> programs_;
  std::map<int, HomeTable> tables_;
  std::map<int, RankWalk> walks_;
  const std::function<const HomeTable&(int)> homes_ = [this](int rank) -> const HomeTable& { return tables_.at(rank); };
};

/// A collective over an axis, of all its ranks or of some.
Action& collective(Program& program, uint32_t kind, const std::vector<Use>& uses, int axis = 0,
                   const std::vector<int>& coordinates = {}) {
  Action& action = add_action(program, kind, program.comm_stream(axis, "test"), uses);
  action.group = program.group({axis, coordinates});
  return action;
}

/// A home that keeps elements of the first parameter, as the layout says.
uint64_t add_home(Program& program, uint32_t kind, const std::vector<int>& axes, uint64_t first_element = 0) {
  for (const int axis : axes) {
    LayoutEntry entry;
    entry.parameter = 0;
    entry.axis = axis;
    entry.kind = kind;
    program.layout.push_back(entry);
  }
  const uint64_t value = persistent(program, "wte", kElements);
  Home home{program.next_id++, "wte", 0, {{0, 0, first_element, kElements, 0}}, kElements, {}};
  home.roles[TSR_HOME_VALUE] = {value, 0, kElements};
  program.homes.push_back(home);
  return value;
}

TEST(CollectiveContents, TheSliceOfOneRankIsNotThatOfAll) {
  Ranks ranks({{"dp", 2}}, true, [](Program& p) {
    const auto slice = kElements * static_cast<uint64_t>(p.coordinates[0]);
    collective(p, TSR_ACTION_BROADCAST, {add(add_home(p, TSR_LAYOUT_SPLIT, {0}, slice))}).peer = 0;
  });
  ranks.apply();
  ranks.walk(0).finish();
  EXPECT_TRUE(has_diagnostic(ranks.findings(), "holds wte.weight, the same elements on all ranks with this program"));
}

/// Those of each of so many tensor ranks, gathered by these: how many parts rank 0 then has, and whether they are rows.
std::pair<size_t, bool> gathered_rows(int num_ranks, const std::vector<int>& coordinates) {
  Model model = toy_model();
  const auto value = static_cast<int>(std::ranges::find(model.values, "x.0", &Value::name) - model.values.begin());
  const uint64_t n = model.values[static_cast<size_t>(value)].num_elements;
  Ranks ranks({{"tp", num_ranks, TSR_SPLITS_TENSORS}}, false, [&](Program& p) {
    const uint64_t rows = transient(p, "rows", n), all = transient(p, "all", 2 * n);
    collective(p, TSR_ACTION_ALL_GATHER, {read(rows), write(all)}, 0, coordinates);
  });
  Content rows{ContentKind::value};
  rows.index = value;
  rows.micro_batch = 0;
  rows.is_rows = true;
  for (int rank = 0; rank < 2; ++rank)
    ranks.walk(rank).write(*ranks.walk(rank).program().actions.back().find(kSource), rows);
  ranks.apply();
  const ContentParts result = ranks.result(0);
  return {result.size(), result.front().content.is_rows};
}

TEST(CollectiveContents, RowsOfAllRanksAreTheWhole) {
  EXPECT_EQ(gathered_rows(2, {}), std::pair(size_t{1}, false));
  EXPECT_EQ(gathered_rows(2, {0, 1}), std::pair(size_t{1}, false));
  EXPECT_EQ(gathered_rows(4, {0, 1}), std::pair(size_t{2}, true)) << "its own, and what is of others";
}

TEST(CollectiveContents, ASliceOfASliceIsEachRanksOwnOverBothAxes) {
  Ranks ranks({{"x", 2}, {"y", 2}}, true, [](Program& p) {
    const uint64_t whole = transient(p, "whole", 2 * kElements, TSR_BUFFER_GRADIENT),
                   slice = transient(p, "slice", kElements, TSR_BUFFER_GRADIENT);
    collective(p, TSR_ACTION_REDUCE_SCATTER, {read(whole), write(slice)}, 1).reduce = TSR_REDUCE_SUM;
  });
  Content of_slice{ContentKind::gradient};
  of_slice.index = 0;
  of_slice.own = 0b01;
  ranks.walk(0).write(*ranks.walk(0).program().actions.back().find(kSource), of_slice);
  ranks.apply();
  EXPECT_EQ(ranks.result(0).front().content.own, 0b11u);
}

/// Whether an average over the last axis is the mean of all replicas of a parameter that diverges over these.
bool is_mean(std::vector<Axis> axes, const std::vector<int>& diverges_over, const std::vector<int>& coordinates) {
  const int last = static_cast<int>(axes.size()) - 1;
  Ranks ranks(std::move(axes), true, [&](Program& p) {
    const uint64_t value = add_home(p, TSR_LAYOUT_DIVERGENT, diverges_over);
    collective(p, TSR_ACTION_ALL_REDUCE, {add(value)}, last, coordinates).reduce = TSR_REDUCE_AVG;
  });
  ranks.apply();
  EXPECT_TRUE(is_clean(ranks.findings()));
  EXPECT_EQ(ranks.result(0).front().content.factor, 1);
  return ranks.result(0).front().content.is_mean;
}

TEST(CollectiveContents, AMeanIsOfAllReplicas) {
  EXPECT_TRUE(is_mean({{"x", 4}}, {0}, {}));
  EXPECT_TRUE(is_mean({{"x", 4}}, {0}, {0, 1, 2, 3}));
  EXPECT_FALSE(is_mean({{"x", 4}}, {0}, {0, 1})) << "of some of the axis";
  EXPECT_TRUE(is_mean({{"x", 2}, {"y", 2}}, {1}, {}));
  EXPECT_FALSE(is_mean({{"x", 2}, {"y", 2}}, {0, 1}, {})) << "of one axis of two";
}

/// What the sum or the average of these, on ranks of one axis, leaves on each.
Content reduced(uint32_t reduce, const std::vector<Content>& given, Diagnostics& findings) {
  Ranks ranks({{"dp", static_cast<int>(given.size())}}, false, [&](Program& p) {
    collective(p, TSR_ACTION_ALL_REDUCE, {add(transient(p, "x", kElements))}).reduce = reduce;
  });
  for (size_t rank = 0; rank < given.size(); ++rank)
    ranks.walk(static_cast<int>(rank))
        .write(*ranks.walk(static_cast<int>(rank)).program().actions.back().find(kDestination), given[rank]);
  ranks.apply();
  findings = ranks.findings();
  return ranks.result(0).front().content;
}

TEST(CollectiveContents, AnAverageOfThreeRoundsWhatHasAValue) {
  Diagnostics findings;
  for (const ContentKind kind : {ContentKind::unknown, ContentKind::zero, ContentKind::opaque}) {
    EXPECT_EQ(reduced(TSR_REDUCE_AVG, {3, Content{kind}}, findings).kind, kind);
    EXPECT_TRUE(is_clean(findings));
  }
  Content gradient{ContentKind::gradient};
  gradient.index = 0;
  reduced(TSR_REDUCE_AVG, {3, gradient}, findings);
  EXPECT_TRUE(has_diagnostic(findings, "over 3 ranks, which rounds"));
}

}  // namespace
}  // namespace tessera::testing
