// Training with processes over gloo: the golden trajectory, equal bits with threads, and ranks that die.
#include <gtest/gtest.h>
#include <signal.h>

#include "e2e/cli.h"
#include "support/free_port.h"
#include "support/processes.h"

namespace tessera::testing {
namespace {

std::vector<nlohmann::json> metrics_of(std::vector<std::string> flags) {
  const TempFolder folder;
  const std::string file = folder.path("metrics.jsonl");
  flags.insert(flags.end(), {"--metrics", file});
  const CommandResult result = run_command(train(flags));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return read_metrics(file);
}

using Flags = std::vector<std::string>;
class TrainOverGlooOn : public ::testing::TestWithParam<Flags> {};

TEST_P(TrainOverGlooOn, FollowsTheGoldenTrajectory) {
  const auto golden_run = nlohmann::json::parse(std::ifstream(golden("/trajectory.json")));
  const auto steps = [&] {
    Flags flags = {"train", "--model", golden(), "--data", golden("/tokens.bin"), "--comm=gloo", "--threads=1"};
    flags.insert(flags.end(), GetParam().begin(), GetParam().end());
    for (const char* name :
         {"batch_size", "seq_len", "grad_accum", "steps", "lr", "weight_decay", "beta1", "beta2", "eps", "clip"})
      flags.insert(flags.end(), {"--" + std::string(name), golden_run[name].dump()});
    const TempFolder folder;
    flags.insert(flags.end(), {"--metrics", folder.path("m")});
    const CommandResult result = run_command(tessera(flags));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return read_metrics(folder.path("m"));
  }();
  ASSERT_EQ(steps.size(), 20u);
  for (size_t i = 0; i < steps.size(); ++i) {
    const double loss = golden_run["loss"][i], norm = golden_run["grad_norm"][i];
    EXPECT_NEAR(steps[i]["loss"].get<double>(), loss, 1e-4 * loss) << "step " << i + 1;
    EXPECT_NEAR(steps[i]["grad_norm"].get<double>(), norm, 1e-4 * norm) << "step " << i + 1;
    EXPECT_EQ(steps[i]["step"], i + 1);
    EXPECT_EQ(steps[i]["tokens"], 256 * (i + 1));
    EXPECT_GT(steps[i]["peak_memory_bytes"], 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, TrainOverGlooOn,
                         ::testing::Values(Flags{"--nproc=2"},
                                           Flags{"--mesh=pp=2,dp=2,tp=2", "--strategy=pp=pipeline,dp=fsdp,tp=tensor"},
                                           Flags{"--mesh=pp=2,dp=2,tp=2", "--strategy=pp=pipeline,dp=ddp,tp=tensor",
                                                 "--pipeline.schedule=interleaved_1f1b", "--pipeline.virtual-stages=2",
                                                 "--tensor.sequence-parallel=true"}));

TEST(Train, SaysHowMuchIsFrozen) {
  const CommandResult run = run_command(train({"--freeze=wte*", "--steps=1"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.err.find("trained, 4608 frozen)"), std::string::npos) << run.err;
}

class GlooAndLocal : public ::testing::TestWithParam<int> {};

TEST_P(GlooAndLocal, GiveTheSameBits) {
  const std::string nproc = "--nproc=" + std::to_string(GetParam());
  const auto gloo = metrics_of({nproc, "--comm=gloo", "--grad-accum=2", "--steps=6"});
  const auto local = metrics_of({nproc, "--comm=local", "--grad-accum=2", "--steps=6"});
  const auto small_buckets = metrics_of({nproc, "--comm=gloo", "--grad-accum=2", "--steps=6", "--ddp.bucket-mb=0.01"});
  ASSERT_EQ(gloo.size(), 6u);
  ASSERT_EQ(local.size(), 6u);
  ASSERT_EQ(small_buckets.size(), 6u);
  for (size_t i = 0; i < gloo.size(); ++i)
    for (const char* name : {"loss", "grad_norm"}) {
      EXPECT_EQ(gloo[i][name], local[i][name]) << name << " of step " << i + 1;
      EXPECT_EQ(gloo[i][name], small_buckets[i][name]) << name << " of step " << i + 1;
    }
}
INSTANTIATE_TEST_SUITE_P(Ranks, GlooAndLocal, ::testing::Values(3, 4));

TEST(Pipeline, HasTheSameBitsOverGlooAndLocal) {
  const auto run = [](const std::string& comm, const std::string& schedule) {
    return metrics_of({"--comm=" + comm, "--mesh=pp=2,dp=2", "--strategy=pp=pipeline,dp=fsdp",
                       "--pipeline.schedule=" + schedule, "--grad-accum=4", "--steps=6"});
  };
  const auto gloo = run("gloo", "1f1b"), local = run("local", "1f1b"), gpipe = run("gloo", "gpipe");
  ASSERT_EQ(gloo.size(), 6u);
  ASSERT_EQ(local.size(), 6u);
  ASSERT_EQ(gpipe.size(), 6u);
  for (size_t i = 0; i < gloo.size(); ++i)
    for (const char* name : {"loss", "grad_norm"}) {
      EXPECT_EQ(gloo[i][name], local[i][name]) << name << " of step " << i + 1;
      EXPECT_EQ(gloo[i][name], gpipe[i][name]) << name << " of step " << i + 1;
    }
}

TEST(TrainOverGloo, AKilledRankEndsTheRunAndIsNamed) {
  Command run(train({"--nproc=3", "--comm=gloo", "--steps=100000", "--timeout-ms=" + std::to_string(kNeverMs)}));
  ASSERT_TRUE(run.wait_for("step   20/")) << run.err();
  const std::vector<int> ranks = children_of(run.pid());
  ASSERT_EQ(ranks.size(), 3u);
  ASSERT_EQ(kill(ranks[1], SIGKILL), 0);
  const CommandResult result = run.wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.err.find("rank 1"), std::string::npos) << result.err;
  for (int rank : ranks)
    EXPECT_NE(kill(rank, 0), 0) << "process " << rank << " was left behind";
}

TEST(TrainUnderALauncher, ReadsRankAndWorldFromTorchrunsVariables) {
  const int port = free_port() - 1;
  Command first(train({"--steps=3"}), torchrun_variables(0, 2, port));
  Command second(train({"--steps=3"}), torchrun_variables(1, 2, port));
  const CommandResult result = first.wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(second.wait().exit_code, 0);
  EXPECT_NE(result.err.find("torchrun"), std::string::npos) << result.err;
}

TEST(TrainUnderALauncher, RanksWithDifferentFlagsRefuseAndNameTheFlag) {
  const auto rank = [port = free_port()](const char* number) {
    return std::map<std::string, std::string>{{"TESSERA_RANK", number},
                                              {"TESSERA_WORLD_SIZE", "2"},
                                              {"TESSERA_LOCAL_RANK", number},
                                              {"TESSERA_LOCAL_SIZE", "2"},
                                              {"TESSERA_STORE_ADDR", "127.0.0.1:" + std::to_string(port)}};
  };
  Command first(train({"--steps=3", "--weight-decay=0.1"}), rank("0"));
  Command second(train({"--steps=3", "--weight-decay=0.2"}), rank("1"));
  for (Command* command : {&first, &second}) {
    const CommandResult result = command->wait();
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_NE(result.err.find("weight-decay"), std::string::npos) << result.err;
  }
}

/// One command starts a run from saved parameters and, when it is given again, goes on with it.
TEST(Train, GoesOnWithARunThatBeganFromSavedParameters) {
  const TempFolder folder;
  const std::string from = folder.path("from"), save = folder.path("save"), metrics = folder.path("m");
  ASSERT_EQ(run_command(train({"--steps=1", "--save", from})).exit_code, 0);
  const auto tuned = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--init-from", from, "--nproc=2", "--strategy=fsdp"});
    return run_command(train(more));
  };
  expect_message(tuned({"--steps=2", "--save", save, "--resume", save}), 0,
                 {save + " holds no checkpoint yet: the run starts at step 1",
                  "parameters: from " + from + "/step-00000001", "done: 2 steps"});
  expect_message(tuned({"--steps=4", "--save", save, "--resume=latest", "--metrics", metrics}), 0,
                 {"resumed from " + save + "/step-00000002", "--init-from " + from + " is not read again"});
  ASSERT_EQ(tuned({"--steps=4", "--metrics", folder.path("whole")}).exit_code, 0);
  const auto whole = read_metrics(folder.path("whole")), rest = read_metrics(metrics);
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_EQ(rest[0]["loss"], whole.at(2)["loss"]);
  EXPECT_EQ(rest[1]["loss"], whole.at(3)["loss"]);
  expect_message(tuned({"--steps=4", "--save", folder.path("other"), "--resume", save}), 2,
                 {"give one of them, or --resume with the folder of --save"});
}

}  // namespace
}  // namespace tessera::testing
