// The pipeline in slots: simulated programs against the formula of their bubble, and how they are drawn.
#include <gtest/gtest.h>

#include "plan/pipeline_schedule.h"
#include "support/pipeline_programs.h"

namespace tessera::testing {
using namespace host;
namespace {

PipelineSchedule schedule_of(const PipelineOptions& options) {
  PipelinePrograms programs(options, 8);
  const JobPrograms job = programs.compile();
  return *pipeline_schedule(programs.mesh(), job.classes,
                            [&](int rank) -> const Program& { return job.of(rank).steps[0]; });
}

void expect_formula(const PipelineOptions& options) {
  const PipelineSchedule schedule = schedule_of(options);
  const double p = options.num_stages, work = static_cast<double>(options.num_micro_batches) * options.num_chunks;
  const std::string what =
      options.schedule + " p=" + std::to_string(options.num_stages) + " m=" + std::to_string(options.num_micro_batches);
  EXPECT_NEAR(schedule.bubble(), (p - 1) / (work + p - 1), 1e-12) << what << "\n" << schedule_text(schedule);
  EXPECT_NEAR(schedule.expected_bubble(), (p - 1) / (work + p - 1), 1e-12) << what;
  for (const PipelineSchedule::Stage& stage : schedule.stages)
    for (const auto& items : stage.actions_by_slot)
      EXPECT_LE(items.size(), 1u) << what << ": two things at once on rank " << stage.rank;
}

TEST(PipelineChart, BubblesAreThoseOfTheFormula) {
  for (const int stages : {2, 4})
    for (uint32_t micro_batches = 1; micro_batches <= 8; ++micro_batches) {
      for (const char* schedule : {"gpipe", "1f1b"})
        expect_formula({stages, micro_batches, schedule, 1, "even"});
      if (micro_batches % static_cast<uint32_t>(stages) == 0)
        expect_formula({stages, micro_batches, "interleaved_1f1b", 2, "even"});
    }
}

TEST(PipelineChart, OneForwardOneBackward) {
  EXPECT_EQ(schedule_text(schedule_of({2, 3, "1f1b", 1, "even"})),
            "pipeline over axis pp: 2 stages, 3 micro-batches\n"
            "a column is a slot: a forward (F) takes 1, a backward (B) 2, moving data none; the number is the "
            "micro-batch; '.' is idle\n"
            "rank 0    | F0 F1 .  .  B0 B0 F2 B1 B1 .  B2 B2\n"
            "rank 1    | .  F0 B0 B0 F1 B1 B1 F2 B2 B2 .  .\n"
            "bubble: 25.0 % of the slots are idle; with p = 2, m = 3, v = 1, (p-1)/(v m + p-1) is 25.0 %\n");
}

TEST(PipelineChart, ChunksAreShown) {
  const std::string text = schedule_text(schedule_of({2, 2, "interleaved_1f1b", 2, "even"}));
  EXPECT_NE(text.find("after the dot the chunk"), std::string::npos) << text;
  EXPECT_NE(text.find("| F0.0 F1.0 F0.1 F1.1"), std::string::npos) << text;
  EXPECT_NE(text.find("v = 2"), std::string::npos) << text;
}

TEST(PipelineChart, SaysWhenAScheduleDiffersFromTheFormula) {
  PipelineSchedule schedule = schedule_of({2, 2, "1f1b", 1, "even"});
  for (PipelineSchedule::Stage& stage : schedule.stages)
    stage.actions_by_slot.emplace_back();
  EXPECT_NE(schedule_text(schedule).find(": this schedule differs"), std::string::npos);
}

TEST(PipelineChart, OnlyAxesThatSplitLayersHaveStages) {
  const Mesh mesh({{"dp", 2, TSR_SPLITS_BATCH}});
  const Program unused;
  EXPECT_FALSE(pipeline_schedule(mesh, RankClasses(mesh), [&](int) -> const Program& { return unused; }));
}

}  // namespace
}  // namespace tessera::testing
