// One rank, and several under ddp, follow the trajectory that PyTorch computed in float64.
#include <gtest/gtest.h>

#include <cmath>

#include "support/local_job.h"

namespace tessera::testing {
namespace {

class Golden : public ::testing::TestWithParam<int> {};

TEST_P(Golden, FollowsTheTrajectory) {
  const Trajectory golden = golden_trajectory();
  const RunResult run = run_local(golden_flags(GetParam()), GetParam());
  ASSERT_EQ(run.steps.size(), golden.loss.size());
  // The data wraps in the last step; from there on the windows depend on the number of data ranks, and the trajectory
  // was made with two.
  const bool same_windows = GetParam() <= 2;
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

INSTANTIATE_TEST_SUITE_P(Ranks, Golden, ::testing::Values(1, 2, 4));

}  // namespace
}  // namespace tessera::testing
