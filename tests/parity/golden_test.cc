// One rank, and several under every strategy and mode, follow the trajectory that PyTorch computed in float64.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "support/local_job.h"

namespace tessera::testing {
namespace {

struct Mode {
  std::string name;
  int num_ranks;
  std::vector<std::string> flags;
};

class Golden : public ::testing::TestWithParam<Mode> {};

TEST_P(Golden, FollowsTheTrajectory) {
  const Trajectory golden = golden_trajectory();
  const int num_ranks = GetParam().num_ranks;
  std::vector<std::string> flags = golden_flags(num_ranks);
  flags.insert(flags.end(), GetParam().flags.begin(), GetParam().flags.end());
  const RunResult run = run_local(flags, num_ranks);
  ASSERT_EQ(run.steps.size(), golden.loss.size());
  ASSERT_EQ(run.num_missing, 0u);
  // The data wraps in the last step; from there on the windows depend on the number of data ranks, and the trajectory
  // was made with two.
  const bool same_windows = num_ranks <= 2;
  for (size_t i = 0; i < golden.loss.size() - (same_windows ? 0 : 1); ++i) {
    EXPECT_NEAR(run.steps[i].loss, golden.loss[i], 1e-4 * golden.loss[i]) << "step " << i;
    EXPECT_NEAR(run.steps[i].grad_norm, golden.grad_norm[i], 1e-4 * golden.grad_norm[i]) << "step " << i;
  }
  if (!same_windows) return;
  for (const auto& [name, norm] : golden.final_weight_norm) {
    double squares = 0;
    for (float value : run.parameters.at(name))
      squares += static_cast<double>(value) * value;
    EXPECT_NEAR(std::sqrt(squares), norm, 1e-4 * norm) << name;
  }
}

std::vector<Mode> modes() {
  std::vector<Mode> all = {{"one_rank", 1, {}}, {"ddp_2", 2, {}}, {"ddp_4", 4, {}}};
  for (const std::string sharding : {"full_shard", "shard_grad_op", "optimizer_only", "no_shard"})
    all.push_back({"fsdp_" + sharding, 2, {"--strategy=fsdp", "--fsdp.sharding=" + sharding}});
  for (const std::string stage : {"1", "2", "3"})
    all.push_back({"zero3_stage_" + stage, 2, {"--strategy=zero3", "--zero3.stage=" + stage}});
  const std::vector<std::string> recompute = {"--strategy=fsdp", "--recompute=full"};
  const std::vector<std::string> often = {"--strategy=fsdp", "--reduce-every=micro-batch"};
  all.push_back({"fsdp_recompute", 2, recompute});
  all.push_back({"fsdp_reduce_every_micro_batch", 2, often});
  for (const std::string plugin : {"fsdp", "zero3"})
    all.push_back(
        {plugin + "_inside_ddp", 4, {"--mesh=replicate=2,shard=2", "--strategy=replicate=ddp,shard=" + plugin}});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Modes, Golden, ::testing::ValuesIn(modes()), [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tessera::testing
