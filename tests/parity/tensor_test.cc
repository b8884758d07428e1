// Tensor parallelism follows the golden trajectory, alone and with every other axis; beside it the strategy on dp does
// not change a bit.
#include <gtest/gtest.h>

#include <algorithm>

#include "parity/mesh_run.h"
#include "support/expect_error.h"

namespace tessera::testing {
namespace {

class TensorGolden : public ::testing::TestWithParam<MeshRun> {};

TEST_P(TensorGolden, FollowsTheTrajectory) {
  expect_golden_trajectory(GetParam());
}

std::vector<MeshRun> meshes() {
  std::vector<MeshRun> all;
  for (const std::vector<std::string>& rows : {std::vector<std::string>{}, {"--tensor.sequence-parallel=true"}}) {
    all.push_back({"tp=2", "tensor", 2, 1, rows});
    all.push_back({"tp=4", "tensor", 4, 1, rows});
    for (const std::string dp : {"ddp", "fsdp", "zero3"})
      all.push_back({"dp=2,tp=2", "dp=" + dp + ",tp=tensor", 4, 2, rows});
    all.push_back({"tp=2,dp=2", "dp=fsdp,tp=tensor", 4, 2, rows});
    all.push_back({"pp=2,tp=2", "pp=pipeline,tp=tensor", 4, 1, rows});
    all.push_back({"pp=2,dp=2,tp=2", "pp=pipeline,dp=ddp,tp=tensor", 8, 2, rows});
    all.push_back({"pp=2,dp=2,tp=2", "pp=pipeline,dp=zero3,tp=tensor", 8, 2, rows});
    all.push_back({"tp=2", "tensor", 2, 1, rows});
    all.back().options.insert(all.back().options.end(), {"--recompute=full", "--debug-memory"});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Meshes, TensorGolden, ::testing::ValuesIn(meshes()), mesh_name);

std::vector<std::string> flags(std::vector<std::string> more = {}, int batch_size = 2) {
  std::vector<std::string> all = {"--model=" + golden_folder(),
                                  "--data=" + golden_folder() + "/tokens.bin",
                                  "--batch-size=" + std::to_string(batch_size),
                                  "--seq-len=15",
                                  "--steps=5",
                                  "--lr=0.01",
                                  "--grad-accum=2"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

using Settings = std::vector<std::string>;

/// The losses, and the first gradient's norm, are those of another run but for rounding.
void expect_follows(const RunResult& run, const RunResult& other, double tolerance) {
  ASSERT_EQ(run.steps.size(), other.steps.size());
  EXPECT_NEAR(run.steps[0].grad_norm, other.steps[0].grad_norm, tolerance * other.steps[0].grad_norm);
  for (size_t i = 0; i < other.steps.size(); ++i)
    EXPECT_NEAR(run.steps[i].loss, other.steps[i].loss, tolerance * other.steps[i].loss) << "step " << i;
}

/// One rank with the tokens of a step of two data ranks.
RunResult run_on_one_rank(Settings more) {
  std::erase_if(more, [](const std::string& flag) { return flag.starts_with("--tensor."); });
  return run_local(flags(std::move(more), 4), 1);
}

double tolerance_of(const Settings& settings) {
  const auto is_dtype = [](const std::string& flag) { return flag.starts_with("--dtype="); };
  return std::any_of(settings.begin(), settings.end(), is_dtype) ? 1e-2 : 1e-4;
}

class TensorBesideDp : public ::testing::TestWithParam<Settings> {};

TEST_P(TensorBesideDp, HasTheBitsOfDdp) {
  const auto run = [&](const std::string& dp, Settings more = {}) {
    Settings all = flags(GetParam());
    all.insert(all.end(), more.begin(), more.end());
    return MeshRun{"dp=2,tp=2", "dp=" + dp + ",tp=tensor", 4, 2}.run(all);
  };
  const RunResult ddp = run("ddp");
  expect_follows(ddp, run_on_one_rank(GetParam()), tolerance_of(GetParam()));
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
                                           Settings{"--freeze=*.bias,wpe*", "--tensor.sequence-parallel=true"},
                                           Settings{"--freeze=wte*,wpe*,h.0.*", "--tensor.sequence-parallel=true"}));

TEST(Tensor, RecomputationAndTimeChangeNoBit) {
  for (const bool splits_rows : {false, true}) {
    const std::string option = splits_rows ? "true" : "false";
    const MeshRun mesh{"tp=2", "tensor", 2, 1, {"--tensor.sequence-parallel=" + option}};
    const RunResult run = mesh.run(flags());
    for (const char* recompute : {"--recompute=full", "--recompute=every=2", "--recompute=attention"})
      EXPECT_EQ(first_difference(run, mesh.run(flags({recompute, "--debug-memory"}))), "") << recompute;
    EXPECT_EQ(first_difference(run, mesh.run(flags({"--stream-delay=9"}))), "");
  }
}

/// A stage of the embeddings alone: the gradient of the tokens' rows arrives from the next one, and no backward of the
/// positions takes it.
TEST(Tensor, FrozenPositionsBeforeTheNextStage) {
  const MeshRun stages{
      "pp=2,tp=2",
      "pp=pipeline,tp=tensor",
      4,
      1,
      {"--pipeline.schedule=interleaved_1f1b", "--pipeline.virtual-stages=3", "--tensor.sequence-parallel=true"}};
  for (const char* frozen : {"--freeze=wpe*", "--freeze=wpe*,*.bias"})
    expect_follows(stages.run(flags({frozen})), run_local(flags({frozen}), 1), 1e-4);
}

TEST(Tensor, OverGloo) {
  const MeshRun mesh{"pp=2,dp=2,tp=2", "pp=pipeline,dp=fsdp,tp=tensor", 8, 2, {"--tensor.sequence-parallel=true"}};
  EXPECT_EQ(first_difference(mesh.run(flags()), mesh.run(flags(), "gloo")), "");
}

TEST(Tensor, RefusesWhatDoesNotDivide) {
  const auto run = [](const char* mesh, int num_ranks, Settings more) {
    MeshRun{mesh, "tensor", num_ranks, 1}.run(flags(std::move(more)));
  };
  expect_error([&] { run("tp=3", 3, {}); }, {"4 heads cannot be split over 3 ranks", "1, 2, 4"});
  expect_error([&] { run("tp=4", 4, {"--tensor.sequence-parallel=true"}); },
               {"2 x 15 tokens does not divide into rows for the 4 ranks of axis tp", "--batch-size"});
}

}  // namespace
}  // namespace tessera::testing
