// A model of GPT-2's width and vocabulary: one rank, and two over either transport, have the values of PyTorch, and two
// ranks the same bits whatever the transport and the strategy.
#include <gtest/gtest.h>

#include "support/local_job.h"
#include "support/wide_model.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr double kTolerance = 1e-6;  // float32 against float64: measured are 3e-9 of the loss, 7e-8 of the norm

RunResult run(const WideModel& model, int num_ranks, const std::string& strategy, const std::string& comm) {
  std::vector<std::string> flags = trajectory_flags(model.folder(), num_ranks);
  flags.push_back("--strategy=" + strategy);
  return run_local(flags, num_ranks, comm);
}

void expect_trajectory(const RunResult& run, const Trajectory& golden) {
  ASSERT_EQ(run.steps.size(), golden.loss.size());
  for (size_t i = 0; i < golden.loss.size(); ++i) {
    EXPECT_NEAR(run.steps[i].loss, golden.loss[i], kTolerance * golden.loss[i]) << "step " << i;
    EXPECT_NEAR(run.steps[i].grad_norm, golden.grad_norm[i], kTolerance * golden.grad_norm[i]) << "step " << i;
  }
}

TEST(Wide, HasTheValuesOfPyTorchAndTheSameBits) {
  const WideModel model;
  const Trajectory golden = trajectory_of(model.folder());
  expect_trajectory(run(model, 1, "ddp", "local"), golden);
  const RunResult ddp = run(model, 2, "ddp", "local");
  expect_trajectory(ddp, golden);
  EXPECT_EQ(first_difference(run(model, 2, "fsdp", "gloo"), ddp), "");
}

}  // namespace
}  // namespace tessera::testing
