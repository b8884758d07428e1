// Tensor parallelism follows the golden trajectory, alone and with every other axis; beside it the strategy on dp does
// not change a bit.
#include <gtest/gtest.h>

#include <cctype>

#include "support/expect_error.h"
#include "support/local_job.h"

namespace tessera::testing {
namespace {

struct Mesh {
  std::string mesh, strategies;
  int num_ranks, num_data_ranks;
  bool splits_rows = false;
  std::vector<std::string> options = {};

  RunResult run(std::vector<std::string> flags, const std::string& comm = "local") const {
    flags.insert(flags.end(), {"--mesh=" + mesh, "--strategy=" + strategies});
    if (splits_rows) flags.push_back("--tensor.sequence-parallel=true");
    flags.insert(flags.end(), options.begin(), options.end());
    return run_local(flags, num_ranks, comm);
  }
};

std::string name(const ::testing::TestParamInfo<Mesh>& test) {
  std::string text = test.param.mesh + "_" + test.param.strategies + (test.param.splits_rows ? "_rows" : "");
  for (const std::string& option : test.param.options)
    text += "_" + option;
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return text;
}

class TensorGolden : public ::testing::TestWithParam<Mesh> {};

TEST_P(TensorGolden, FollowsTheTrajectory) {
  const Trajectory golden = golden_trajectory();
  const RunResult run = GetParam().run(golden_flags(GetParam().num_data_ranks));
  ASSERT_EQ(run.steps.size(), golden.loss.size());
  EXPECT_EQ(run.num_missing + run.num_contradictions, 0u);
  for (size_t i = 0; i < golden.loss.size(); ++i) {
    EXPECT_NEAR(run.steps[i].loss, golden.loss[i], 1e-4 * golden.loss[i]) << "step " << i;
    EXPECT_NEAR(run.steps[i].grad_norm, golden.grad_norm[i], 1e-4 * golden.grad_norm[i]) << "step " << i;
  }
  for (const double loss : run.final_losses)
    EXPECT_EQ(loss, run.final_losses[0]);
}

std::vector<Mesh> meshes() {
  std::vector<Mesh> all;
  for (const bool splits_rows : {false, true}) {
    all.push_back({"tp=2", "tensor", 2, 1, splits_rows});
    all.push_back({"tp=4", "tensor", 4, 1, splits_rows});
    for (const std::string dp : {"ddp", "fsdp", "zero3"})
      all.push_back({"dp=2,tp=2", "dp=" + dp + ",tp=tensor", 4, 2, splits_rows});
    all.push_back({"tp=2,dp=2", "dp=fsdp,tp=tensor", 4, 2, splits_rows});
    all.push_back({"pp=2,tp=2", "pp=pipeline,tp=tensor", 4, 1, splits_rows});
    all.push_back({"pp=2,dp=2,tp=2", "pp=pipeline,dp=ddp,tp=tensor", 8, 2, splits_rows});
    all.push_back({"pp=2,dp=2,tp=2", "pp=pipeline,dp=zero3,tp=tensor", 8, 2, splits_rows});
    all.push_back({"tp=2", "tensor", 2, 1, splits_rows, {"--recompute=full", "--debug-memory"}});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Meshes, TensorGolden, ::testing::ValuesIn(meshes()), name);

std::vector<std::string> flags(std::vector<std::string> more = {}) {
  std::vector<std::string> all = {"--model=" + golden_folder(),
                                  "--data=" + golden_folder() + "/tokens.bin",
                                  "--batch-size=2",
                                  "--seq-len=15",
                                  "--steps=5",
                                  "--lr=0.01",
                                  "--grad-accum=2"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

using Settings = std::vector<std::string>;
class TensorBesideDp : public ::testing::TestWithParam<Settings> {};

TEST_P(TensorBesideDp, HasTheBitsOfDdp) {
  const auto run = [&](const std::string& dp, Settings more = {}) {
    Settings all = flags(GetParam());
    all.insert(all.end(), more.begin(), more.end());
    return Mesh{"dp=2,tp=2", "dp=" + dp + ",tp=tensor", 4, 2}.run(all);
  };
  const RunResult ddp = run("ddp");
  EXPECT_LT(ddp.steps.back().loss, ddp.steps.front().loss);
  EXPECT_EQ(first_difference(ddp, run("fsdp", {"--debug-memory"})), "");
  EXPECT_EQ(first_difference(ddp, run("fsdp", {"--fsdp.sharding=optimizer_only"})), "");
  EXPECT_EQ(first_difference(ddp, run("fsdp", {"--fsdp.wrap=root", "--stream-delay=3"})), "");
  EXPECT_EQ(first_difference(ddp, run("zero3", {"--zero3.partition=round_robin"})), "");
  EXPECT_EQ(first_difference(ddp, run("zero3", {"--zero3.stage=1"})), "");
}

INSTANTIATE_TEST_SUITE_P(Settings, TensorBesideDp,
                         ::testing::Values(Settings{}, Settings{"--tensor.sequence-parallel=true"},
                                           Settings{"--reduce-every=micro-batch"},
                                           Settings{"--dtype=bf16", "--tensor.sequence-parallel=true"},
                                           Settings{"--dtype=fp16", "--recompute=full"},
                                           Settings{"--freeze=*.bias,wpe*", "--tensor.sequence-parallel=true"}));

TEST(Tensor, RecomputationAndTimeChangeNoBit) {
  for (const bool splits_rows : {false, true}) {
    const Mesh mesh{"tp=2", "tensor", 2, 1, splits_rows};
    const RunResult run = mesh.run(flags());
    for (const char* recompute : {"--recompute=full", "--recompute=every=2", "--recompute=attention"})
      EXPECT_EQ(first_difference(run, mesh.run(flags({recompute, "--debug-memory"}))), "") << recompute;
    EXPECT_EQ(first_difference(run, mesh.run(flags({"--stream-delay=9"}))), "");
  }
}

TEST(Tensor, OverGloo) {
  const Mesh mesh{"pp=2,dp=2,tp=2", "pp=pipeline,dp=fsdp,tp=tensor", 8, 2, true};
  EXPECT_EQ(first_difference(mesh.run(flags()), mesh.run(flags(), "gloo")), "");
}

TEST(Tensor, RefusesWhatDoesNotDivide) {
  const auto run = [](const char* mesh, int num_ranks, Settings more) {
    Mesh{mesh, "tensor", num_ranks, 1}.run(flags(std::move(more)));
  };
  expect_error([&] { run("tp=3", 3, {}); }, {"4 heads cannot be split over 3 ranks", "1, 2, 4"});
  expect_error([&] { run("tp=4", 4, {"--tensor.sequence-parallel=true"}); },
               {"2 x 15 tokens does not divide into rows for the 4 ranks of axis tp", "--batch-size"});
}

}  // namespace
}  // namespace tessera::testing
