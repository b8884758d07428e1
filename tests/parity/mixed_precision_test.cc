// 16-bit runs: near the float64 trajectory, and with a loss scale that adapts to what overflows.
#include <gtest/gtest.h>

#include <cmath>

#include "support/large_gradients.h"
#include "support/local_job.h"
#include "support/temp_folder.h"
#include "train/loss_scaler.h"

namespace tessera::testing {
using namespace host;
namespace {

struct Precision {
  const char* dtype;
  double loss, norm;  // largest relative difference
};

class MixedPrecision : public ::testing::TestWithParam<Precision> {};

// Rounding errors of values (2^-8 in bf16, 2^-11 in fp16) mostly cancel in the first steps' means; later AdamW, which
// divides by the gradients' size, makes small ones count. Measured: loss 3e-4 and 1.5e-4, norm 1.4e-2 and 6e-3.
TEST_P(MixedPrecision, FollowsTheTrajectory) {
  const Precision precision = GetParam();
  const Trajectory golden = golden_trajectory();
  auto flags = golden_flags(2);
  flags.push_back(std::string("--dtype=") + precision.dtype);
  const RunResult run = run_local(flags, 2);
  ASSERT_EQ(run.steps.size(), golden.loss.size());
  for (size_t i = 0; i < golden.loss.size(); ++i) {
    EXPECT_NEAR(run.steps[i].loss, golden.loss[i], precision.loss * golden.loss[i]) << "step " << i;
    EXPECT_NEAR(run.steps[i].grad_norm, golden.grad_norm[i], precision.norm * golden.grad_norm[i]) << "step " << i;
    EXPECT_EQ(run.steps[i].loss_scale, std::string_view(precision.dtype) == "fp16" ? 65536 : 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, MixedPrecision,
                         ::testing::Values(Precision{"bf16", 1e-3, 4e-2}, Precision{"fp16", 5e-4, 2e-2}),
                         [](const auto& tested) { return std::string(tested.param.dtype); });

TEST(LossScale, GradientsThatOverflowSkipTheStepOnAllRanksAndHalveTheScale) {
  const TempFolder folder;
  write_golden_model_with_large_gradients(folder, 300);
  const auto run = [&](int num_ranks, const char* strategy) {
    auto flags = golden_flags(num_ranks);
    flags.front() = "--model=" + folder.path();
    flags.insert(flags.end(), {"--dtype=fp16", std::string("--strategy=") + strategy});
    return run_local(flags, num_ranks);
  };
  const RunResult ddp = run(4, "ddp");
  LossScaler scaler(true);
  int64_t num_skipped = 0;
  for (const StepMetrics& step : ddp.steps) {
    EXPECT_EQ(step.loss_scale, scaler.scale()) << "step " << step.step;
    EXPECT_TRUE(std::isfinite(step.loss));
    scaler.update(std::isfinite(step.grad_norm));
    num_skipped += std::isfinite(step.grad_norm) ? 0 : 1;
  }
  EXPECT_GE(num_skipped, 2);
  EXPECT_LT(num_skipped, 15);
  // Ranks own slices here: had one of them updated what another one skipped, the next losses would differ.
  const RunResult fsdp = run(4, "fsdp");
  for (size_t i = 0; i < ddp.steps.size(); ++i) {
    EXPECT_EQ(fsdp.steps[i].loss, ddp.steps[i].loss) << "step " << i;
    EXPECT_EQ(fsdp.steps[i].loss_scale, ddp.steps[i].loss_scale) << "step " << i;
  }
}

// SGD, unlike AdamW, does not forgive a factor of its gradients; nor does it let small gradients count.
TEST(LossScale, TheOptimizerTakesUnscaledGradients) {
  auto flags = golden_flags(2);
  std::erase_if(flags, [](const std::string& flag) { return flag.starts_with("--lr="); });
  flags.insert(flags.end(), {"--optimizer=sgd", "--lr=0.02"});
  const RunResult in_float32 = run_local(flags, 2);
  flags.push_back("--dtype=fp16");
  const RunResult in_16_bit = run_local(flags, 2);
  for (size_t i = 0; i < in_float32.steps.size(); ++i) {
    EXPECT_NEAR(in_16_bit.steps[i].loss, in_float32.steps[i].loss, 1e-5 * in_float32.steps[i].loss) << "step " << i;
    EXPECT_NEAR(in_16_bit.steps[i].grad_norm, in_float32.steps[i].grad_norm, 1e-3 * in_float32.steps[i].grad_norm);
  }
  EXPECT_LT(in_float32.steps.back().loss, 0.98 * in_float32.steps.front().loss);
}

}  // namespace
}  // namespace tessera::testing
