// Pipelines follow the golden trajectory; schedules do not change a bit, nor do the strategies beside them.
#include <gtest/gtest.h>

#include "parity/mesh_run.h"
#include "support/expect_error.h"

namespace tessera::testing {
namespace {

const std::vector<std::string> kInterleaved = {"--pipeline.schedule=interleaved_1f1b", "--pipeline.virtual-stages=2"};

class PipelineGolden : public ::testing::TestWithParam<MeshRun> {};

TEST_P(PipelineGolden, FollowsTheTrajectory) {
  expect_golden_trajectory(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, PipelineGolden,
    ::testing::Values(MeshRun{"pp=2", "pp=pipeline", 2, 1}, MeshRun{"pp=4", "pp=pipeline", 4, 1},
                      MeshRun{"pp=3", "pp=pipeline", 3, 1},
                      MeshRun{"pp=4", "pp=pipeline", 4, 1, {"--pipeline.schedule=gpipe", "--pipeline.cut=even"}},
                      MeshRun{"pp=2", "pp=pipeline", 2, 1, kInterleaved},
                      MeshRun{"pp=2", "pp=pipeline", 2, 1, {"--pipeline.cut=ln_f"}},
                      MeshRun{"pp=2,dp=2", "pp=pipeline,dp=ddp", 4, 2},
                      MeshRun{"pp=2,dp=2", "pp=pipeline,dp=fsdp", 4, 2},
                      MeshRun{"pp=2,dp=2", "pp=pipeline,dp=zero3", 4, 2},
                      MeshRun{"dp=2,pp=2", "pp=pipeline,dp=fsdp", 4, 2},
                      MeshRun{"pp=2,dp=2", "pp=pipeline,dp=ddp", 4, 2, kInterleaved},
                      MeshRun{"pp=2,tp=2", "pp=pipeline,tp=tensor", 4, 1},
                      MeshRun{"tp=2,pp=2", "pp=pipeline,tp=tensor", 4, 1, kInterleaved},
                      MeshRun{"pp=2,dp=2,tp=2", "pp=pipeline,dp=fsdp,tp=tensor", 8, 2}),
    mesh_name);

/// Six micro-batches a step for each data rank, some steps.
std::vector<std::string> flags(std::vector<std::string> more = {}, int micro_batches = 6) {
  std::vector<std::string> all = {"--model=" + golden_folder(),
                                  "--data=" + golden_folder() + "/tokens.bin",
                                  "--batch-size=1",
                                  "--seq-len=16",
                                  "--steps=6",
                                  "--lr=0.01",
                                  "--grad-accum=" + std::to_string(micro_batches)};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

const MeshRun kTwoStages{"pp=2", "pp=pipeline", 2, 1};

TEST(PipelineBits, DoNotDependOnTheSchedule) {
  for (const char* cut : {"--pipeline.cut=even", "--pipeline.cut=auto"})
    for (const int stages : {2, 4}) {
      const MeshRun mesh{"pp=" + std::to_string(stages), "pp=pipeline", stages, 1};
      const RunResult gpipe = mesh.run(flags({"--pipeline.schedule=gpipe", cut}));
      EXPECT_LT(gpipe.steps.back().loss, gpipe.steps.front().loss);
      EXPECT_EQ(first_difference(gpipe, mesh.run(flags({"--pipeline.schedule=1f1b", cut}))), "") << cut << stages;
    }
  // The tied embedding's two parts are added as stages hold them, so parts that end up on other stages keep the bits.
  const RunResult gpipe = kTwoStages.run(flags({"--pipeline.schedule=gpipe"}));
  EXPECT_EQ(first_difference(gpipe, kTwoStages.run(flags(kInterleaved))), "");
}

TEST(PipelineBits, FewerMicroBatchesThanStages) {
  const MeshRun mesh{"pp=4", "pp=pipeline", 4, 1};
  for (const int micro_batches : {1, 2, 3}) {
    const RunResult gpipe = mesh.run(flags({"--pipeline.schedule=gpipe"}, micro_batches));
    EXPECT_EQ(first_difference(gpipe, mesh.run(flags({}, micro_batches))), "") << micro_batches;
  }
}

TEST(PipelineBits, DoNotDependOnTimeOrMemory) {
  const RunResult run = kTwoStages.run(flags());
  EXPECT_EQ(first_difference(run, kTwoStages.run(flags({"--debug-memory"}))), "");
  EXPECT_EQ(first_difference(run, kTwoStages.run(flags({"--stream-delay=11", "--debug-memory"}))), "");
  const RunResult four = MeshRun{"pp=4", "pp=pipeline", 4, 1}.run(flags({"--stream-delay=5"}));
  EXPECT_EQ(first_difference(MeshRun{"pp=4", "pp=pipeline", 4, 1}.run(flags()), four), "");
  std::vector<std::string> delayed = kInterleaved;
  delayed.insert(delayed.end(), {"--stream-delay=3", "--debug-memory"});
  EXPECT_EQ(first_difference(kTwoStages.run(flags(kInterleaved)), kTwoStages.run(flags(delayed))), "");
}

TEST(PipelineBits, DoNotDependOnRecomputation) {
  const RunResult run = kTwoStages.run(flags());
  for (const char* recompute : {"--recompute=full", "--recompute=every=2", "--recompute=attention"})
    EXPECT_EQ(first_difference(run, kTwoStages.run(flags({recompute, "--debug-memory"}))), "") << recompute;
}

/// With everything else the same, the strategy on dp may not matter.
class PipelineBesideDp : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(PipelineBesideDp, HasTheBitsOfDdp) {
  const auto run = [&](const char* mesh, const char* dp, std::vector<std::string> more = {}) {
    std::vector<std::string> all = flags(GetParam(), 2);
    all.insert(all.end(), more.begin(), more.end());
    return MeshRun{mesh, std::string("pp=pipeline,dp=") + dp, 4, 2}.run(all);
  };
  const RunResult ddp = run("pp=2,dp=2", "ddp");
  EXPECT_EQ(first_difference(ddp, run("pp=2,dp=2", "fsdp")), "");
  EXPECT_EQ(first_difference(ddp, run("pp=2,dp=2", "fsdp", {"--fsdp.reshard-after-forward=true"})), "");
  EXPECT_EQ(first_difference(ddp, run("pp=2,dp=2", "fsdp", {"--fsdp.sharding=optimizer_only"})), "");
  EXPECT_EQ(first_difference(ddp, run("pp=2,dp=2", "fsdp", {"--fsdp.wrap=root"})), "");
  EXPECT_EQ(first_difference(ddp, run("pp=2,dp=2", "zero3")), "");
  EXPECT_EQ(first_difference(ddp, run("pp=2,dp=2", "zero3", {"--zero3.stage=1"})), "");
  EXPECT_EQ(first_difference(ddp, run("dp=2,pp=2", "fsdp", {"--debug-memory"})), "");
  EXPECT_EQ(first_difference(ddp, run("dp=2,pp=2", "zero3", {"--stream-delay=7"})), "");
}

INSTANTIATE_TEST_SUITE_P(Settings, PipelineBesideDp,
                         ::testing::Values(std::vector<std::string>{},
                                           std::vector<std::string>{"--reduce-every=micro-batch"},
                                           std::vector<std::string>{"--dtype=bf16", "--recompute=full"},
                                           std::vector<std::string>{"--dtype=fp16", "--optimizer=sgd"},
                                           std::vector<std::string>{"--freeze=wte*,h.0.*,wpe*"}, kInterleaved));

// The gradient of a value that enters a stage is read by wte, not by the frozen segment that made the value.
TEST(Pipeline, GradientsPassAFrozenPositionEmbedding) {
  const RunResult two = kTwoStages.run(flags({"--freeze=wpe*"}));
  EXPECT_EQ(first_difference(two, kTwoStages.run(flags({"--freeze=wpe*", "--pipeline.cut=h.0"}))), "");
  EXPECT_EQ(first_difference(two, kTwoStages.run(flags({"--freeze=wpe*", "--pipeline.schedule=interleaved_1f1b",
                                                        "--pipeline.virtual-stages=3"}))),
            "");
  for (const int stages : {6, 7})
    EXPECT_EQ(first_difference(
                  two, MeshRun{"pp=" + std::to_string(stages), "pp=pipeline", stages, 1}.run(flags({"--freeze=wpe*"}))),
              "")
        << stages;
}

TEST(Pipeline, HybridShardingBeside) {
  const RunResult flat = MeshRun{"pp=2,dp=4", "pp=pipeline,dp=ddp", 8, 4}.run(flags({}, 2));
  const MeshRun hybrid{"pp=2,replicate=2,shard=2", "pp=pipeline,replicate=ddp,shard=fsdp", 8, 4};
  EXPECT_EQ(first_difference(flat, hybrid.run(flags({}, 2))), "");
}

// With sequence parallelism the embedding's output is whole where it is made and in rows where it is read.
TEST(Pipeline, ACutThatASplitOfTensorsDoesNotAllowIsRefused) {
  const MeshRun mesh{"pp=2,tp=2", "pp=pipeline,tp=tensor", 4, 1, {"--tensor.sequence-parallel=true"}};
  EXPECT_NO_THROW(mesh.run(flags({"--pipeline.cut=h.0"})));
  expect_error([&] { mesh.run(flags({"--pipeline.cut=wpe"})); },
               {"strategy pipeline on axis pp", "with this tensor parallelism the model cannot be cut there",
                "before h.0.ln_1"});
}

TEST(Pipeline, OverGloo) {
  const MeshRun mesh{"pp=2,dp=2", "pp=pipeline,dp=fsdp", 4, 2};
  EXPECT_EQ(first_difference(mesh.run(flags()), mesh.run(flags(), "gloo")), "");
  EXPECT_EQ(first_difference(kTwoStages.run(flags(kInterleaved)), kTwoStages.run(flags(kInterleaved), "gloo")), "");
}

}  // namespace
}  // namespace tessera::testing
