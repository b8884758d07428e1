// Two ranks with one program, of which the first is walked for both: the slices that they get, and those that they
// keep.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "support/expect_diagnostic.h"
#include "support/program_builder.h"
#include "verify/model/replicas.h"
#include "verify/model/slice_rules.h"
#include "verify/model/verify_model.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr uint64_t kSlice = 64;
constexpr int kParameter = 0;

class WalkedRanksTest : public ::testing::Test {
 protected:
  WalkedRanksTest() {
    context_.diagnostics = &diagnostics_;
    for (int rank = 0; rank < 2; ++rank) {
      programs_.push_back(program_of(rank));
      tables_.emplace(rank, HomeTable(programs_.back(), context_.buffers));
    }
  }

  /// With the rank's slice of the parameter in its home.
  Program program_of(int rank) const {
    Program program = empty_program(model_, mesh_, {rank});
    LayoutEntry split;
    split.parameter = kParameter;
    split.axis = 0;
    split.kind = TSR_LAYOUT_SPLIT;
    split.parts = 2;
    program.layout = {split};
    Home home{
        program.next_id++, "wte", 0, {{kParameter, 0, kSlice * static_cast<uint64_t>(rank), kSlice, 0}}, kSlice, {}};
    home.roles[TSR_HOME_VALUE] = {persistent(program, "wte", kSlice), 0, kSlice};
    program.homes = {home};
    return program;
  }

  /// Elements of the parameter from one on.
  static Content elements(uint64_t from) {
    Content content{ContentKind::state};
    content.role = TSR_HOME_VALUE;
    content.index = kParameter;
    content.shift = static_cast<int64_t>(from);
    return content;
  }

  /// The rank that gets another slice than it keeps, where the two get these.
  std::optional<int> other_slice(const ContentPart& of_first, const ContentPart& of_second) {
    const std::vector<int> programs = {0, 0}, ranks = {0, 1};
    const RankClasses classes = RankClasses::of_programs(mesh_, programs);
    const KeptContents none;
    std::map<int, RankWalk> walks;
    RankWalk& walk = walks.try_emplace(0, programs_[0], 0, tables_.at(0), none, 1u, context_).first->second;
    const std::function<const HomeTable&(int)> homes = [&](int rank) -> const HomeTable& { return tables_.at(rank); };
    const WalkedRanks walked{mesh_, classes, walks, homes, context_.sets};
    return rank_with_other_slice(walked, walk, ranks, [&](size_t i) { return ContentParts{i ? of_second : of_first}; });
  }

  const Model model_ = toy_model();
  const Mesh mesh_{{{"dp", 2}}};
  DiagnosticList diagnostics_;
  WalkContext context_;
  std::vector<Program> programs_;
  std::map<int, HomeTable> tables_;
};

TEST_F(WalkedRanksTest, EachGetsItsOwnSlice) {
  EXPECT_EQ(other_slice({0, kSlice, elements(0)}, {0, kSlice, elements(kSlice)}), std::nullopt);
  EXPECT_EQ(other_slice({0, kSlice, elements(0)}, {0, kSlice, elements(0)}), 1);
}

TEST_F(WalkedRanksTest, ASliceThatIsShorterMissesWhatTheOtherKeeps) {
  EXPECT_EQ(other_slice({0, kSlice, elements(0)}, {0, kSlice / 2, elements(kSlice)}), 1);
  EXPECT_EQ(other_slice({0, kSlice / 2, elements(0)}, {0, kSlice, elements(kSlice)}), 1);
}

TEST_F(WalkedRanksTest, ElementsThatNeitherKeepsAreNotLikeNone) {
  const ContentPart elsewhere{0, kSlice, elements(2 * kSlice)}, zeros{0, kSlice, {ContentKind::zero}};
  EXPECT_EQ(other_slice(elsewhere, elsewhere), std::nullopt);
  EXPECT_EQ(other_slice(zeros, zeros), std::nullopt);
  EXPECT_EQ(other_slice(elsewhere, zeros), 1);
  EXPECT_EQ(other_slice(zeros, elsewhere), 1);
}

/// What one rank has updated and given to both is right for that one alone.
TEST_F(WalkedRanksTest, AHomeKeepsEachRanksOwnSlice) {
  const auto findings = [&](uint32_t own, uint32_t walked_axes) {
    context_.reported.clear();
    const KeptContents none;
    RankWalk walk(programs_[0], 0, tables_.at(0), none, walked_axes, context_);
    Content updated = elements(0);
    updated.version = 1;
    updated.own = own;
    const HomeRole& value = programs_[0].homes[0].roles[TSR_HOME_VALUE];
    walk.write({value.buffer, 0, kSlice, 0, 0}, updated);
    walk.finish();
    return diagnostics_.take();
  };
  EXPECT_TRUE(is_clean(findings(0, 0)));
  EXPECT_TRUE(is_clean(findings(1, 1)));
  EXPECT_TRUE(has_diagnostic(findings(0, 1),
                             "after the program home wte holds wte.weight, updated, the same elements "
                             "on all ranks with this program"));
}

/// Replicas that do so alike do not differ.
TEST_F(WalkedRanksTest, ElementsBesideOneAnotherMayBeAveragedAndNot) {
  const KeptContents none;
  std::map<int, RankWalk> walks;
  for (int rank = 0; rank < 2; ++rank) {
    const Program& program = programs_[static_cast<size_t>(rank)];
    RankWalk& walk = walks.try_emplace(rank, program, rank, tables_.at(rank), none, 0u, context_).first->second;
    const uint64_t value = program.homes[0].roles[TSR_HOME_VALUE].buffer;
    for (const bool is_mean : {true, false}) {
      const uint64_t from = is_mean ? 0 : kSlice / 2;
      Content updated = elements(from + kSlice * static_cast<uint64_t>(rank));
      updated.version = 1;
      updated.is_mean = is_mean;
      walk.write({value, from, kSlice / 2, 0, 0}, updated);
    }
    walk.finish();
  }
  compare_replicas(walks, context_);
  EXPECT_TRUE(is_clean(diagnostics_.take()));
}

/// What it holds before a step may be anything if calls write it. A copy of what they only read is nothing to keep.
TEST(OwnMemory, HoldsWhatCallsHaveWritten) {
  const Model model = toy_model();
  const Mesh mesh({{"dp", 1}});
  const RankClasses classes(mesh);
  for (const bool writes : {false, true}) {
    Program step = empty_program(model, mesh);
    const uint64_t own = persistent(step, "own", kSlice, TSR_BUFFER_PLUGIN), value = persistent(step, "wte", kSlice);
    Home home{step.next_id++, "wte", 0, {{kParameter, 0, 0, kSlice, 0}}, kSlice, {}};
    home.roles[TSR_HOME_VALUE] = {value, 0, kSlice};
    step.homes = {home};
    add_action(step, TSR_ACTION_COPY, TSR_STREAM_COMPUTE, {read(own), write(value)});
    add_action(step, TSR_ACTION_CALL, TSR_STREAM_COMPUTE, {writes ? write(own) : read(own)});
    ModelVerifier verifier(mesh, classes, [](int) { return RankHomes(); });
    verifier.note_calls(step);
    const Diagnostics found = verifier.check([&](int) -> const Program& { return step; }, classes, {});
    const auto is_of_home = [](const std::string& finding) { return finding.find("home wte") != finding.npos; };
    EXPECT_EQ(std::ranges::count_if(found, is_of_home), writes ? 0 : 1);
    if (!writes) {
      EXPECT_TRUE(has_diagnostic(found, "home wte holds nothing that the model names; the model needs wte.weight"));
    }
  }
}

}  // namespace
}  // namespace tessera::testing
