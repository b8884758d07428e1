// The chart of live memory.
#include "plan/timeline.h"

#include <gtest/gtest.h>

#include "support/program_builder.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr uint64_t kMiB = 1 << 20;

TEST(Timeline, DrawsStatesAndWhatComesOnTop) {
  const std::vector<uint64_t> live = {1 * kMiB, 3 * kMiB, 4 * kMiB, 2 * kMiB};
  const std::vector<Phase> phases = {Phase::forward, Phase::forward, Phase::backward, Phase::optimizer};
  EXPECT_EQ(timeline_chart(live, 1 * kMiB, phases, 64, 4),
            "     4.0 MiB |  #\n"
            "     3.0 MiB | ##\n"
            "     2.0 MiB | ###\n"
            "     1.0 MiB |====\n"
            "              ffbo\n");
}

TEST(Timeline, AColumnShowsTheMostOfItsActions) {
  std::vector<uint64_t> live(100, 1);
  live[37] = 2;
  const std::string chart = timeline_chart(live, 0, std::vector<Phase>(100, Phase::forward), 10, 2);
  EXPECT_EQ(chart,
            "     2.0 B   |   #\n"
            "     1.0 B   |##########\n"
            "              ffffffffff\n");
}

TEST(Timeline, PhasesFollowTheComputeAndStepActions) {
  const Model model = toy_model();
  const Mesh mesh({{"dp", 2}});
  Program program = empty_program(model, mesh, {0});
  for (const uint32_t kind :
       {TSR_ACTION_CAST, TSR_ACTION_FORWARD, TSR_ACTION_ALL_GATHER, TSR_ACTION_LOSS, TSR_ACTION_RECOMPUTE,
        TSR_ACTION_BACKWARD, TSR_ACTION_ALL_REDUCE, TSR_ACTION_SUM_SQUARES, TSR_ACTION_OPTIMIZER})
    add_action(program, kind, TSR_STREAM_COMPUTE, {});
  const auto runs = phase_runs(phases_of(program));
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].num_actions, 3u);
  EXPECT_EQ(runs[1].phase, Phase::backward);
  EXPECT_EQ(runs[1].num_actions, 5u) << "squares are summed before clip, some between the backwards of blocks";
  EXPECT_EQ(runs[2].first_action, 8u);
}

TEST(Timeline, OfNothingIsEmpty) {
  EXPECT_EQ(timeline_chart({}, 0, {}), "");
}

}  // namespace
}  // namespace tessera::testing
