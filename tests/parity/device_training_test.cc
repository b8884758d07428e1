// Whole runs on a device with memory of its own: the golden trajectory in float32 and 16 bits, ranks that share the
// device over gloo under every strategy, and what must not change a bit. TESSERA_TEST_DEVICE names the device, or a
// plugin's path; without it "cuda", and where that cannot be opened the tests are skipped, unless
// TESSERA_TEST_DEVICE_REQUIRED is set. TESSERA_TEST_STEPS: so many of the trajectory's 20 steps, on emulated devices.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/local_job.h"
#include "support/wide_model.h"
#include "tessera/error.hpp"

namespace tessera::testing {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

using Flags = std::vector<std::string>;

/// `more` take the place of `flags` of the same names.
RunResult run_flags_on_device(Flags flags, const Flags& more, int num_ranks = 1) {
  const std::string device = variable("TESSERA_TEST_DEVICE");
  const auto name = [](const std::string& flag) { return flag.substr(0, flag.find('=')); };
  std::erase_if(flags, [&](const std::string& flag) {
    return std::ranges::any_of(more, [&](const std::string& other) { return name(other) == name(flag); });
  });
  flags.insert(flags.end(), {"--device=" + (device.empty() ? "cuda" : device), "--cuda.share=true"});
  flags.insert(flags.end(), more.begin(), more.end());
  return run_local(flags, num_ranks, num_ranks > 1 ? "gloo" : "local");
}

/// `more` take the place of the golden flags of the same names.
RunResult run_on_device(const Flags& more, int num_ranks = 1, int num_data_ranks = 1) {
  Flags flags = golden_flags(num_data_ranks);
  const std::string num_steps = variable("TESSERA_TEST_STEPS");
  if (!num_steps.empty()) std::ranges::replace(flags, std::string("--steps=20"), "--steps=" + num_steps);
  return run_flags_on_device(flags, more, num_ranks);
}

/// Why the device cannot be used; asked once.
const std::optional<std::string>& unavailable() {
  static const std::optional<std::string> reason = []() -> std::optional<std::string> {
    try {
      run_on_device({"--steps=1"});
    } catch (const Error& error) {
      if (error.code() == TSR_E_UNAVAILABLE || error.code() == TSR_E_NOT_FOUND) return error.what();
      throw;
    }
    return std::nullopt;
  }();
  return reason;
}

class DeviceTraining : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!unavailable()) return;
    if (!variable("TESSERA_TEST_DEVICE_REQUIRED").empty()) FAIL() << *unavailable();
    GTEST_SKIP() << *unavailable();
  }
};

/// Largest relative differences from the trajectory.
struct Tolerance {
  double loss, norm;
};
constexpr Tolerance kFloat32{1e-4, 1e-4};

void expect_trajectory(const RunResult& run, Tolerance tolerance, int num_data_ranks = 1) {
  const Trajectory golden = golden_trajectory();
  if (variable("TESSERA_TEST_STEPS").empty()) {
    ASSERT_EQ(run.steps.size(), golden.loss.size());
  }
  EXPECT_EQ(run.num_missing + run.num_contradictions, 0u);
  // The data wraps in the last step; from there on the windows depend on the number of data ranks.
  const size_t num_steps = std::min(run.steps.size(), golden.loss.size() - (num_data_ranks <= 2 ? 0 : 1));
  ASSERT_GT(num_steps, 0u);
  for (size_t i = 0; i < num_steps; ++i) {
    EXPECT_NEAR(run.steps[i].loss, golden.loss[i], tolerance.loss * golden.loss[i]) << "step " << i;
    EXPECT_NEAR(run.steps[i].grad_norm, golden.grad_norm[i], tolerance.norm * golden.grad_norm[i]) << "step " << i;
  }
}

TEST_F(DeviceTraining, Float32FollowsTheTrajectory) {
  const RunResult run = run_on_device({});
  expect_trajectory(run, kFloat32);
  if (!variable("TESSERA_TEST_STEPS").empty()) return;  // the weights are those after all steps
  for (const auto& [name, norm] : golden_trajectory().final_weight_norm) {
    double squares = 0;
    for (const float value : run.parameters.at(name))
      squares += static_cast<double>(value) * value;
    EXPECT_NEAR(std::sqrt(squares), norm, 1e-4 * norm) << name;
  }
}

// Values of 8 and 11 bits, and logits of as many: the tolerances of the CPU's 16-bit runs, which keep logits in
// float32, and as much again.
TEST_F(DeviceTraining, Bf16FollowsTheTrajectory) {
  expect_trajectory(run_on_device({"--dtype=bf16"}), {2e-3, 8e-2});
}
TEST_F(DeviceTraining, Fp16FollowsTheTrajectory) {
  expect_trajectory(run_on_device({"--dtype=fp16"}), {1e-3, 4e-2});
}

// The sizes of real models, in as many parts as the device chooses and in short ones. On the CPU bfloat16 is off by
// 1e-4 and 2e-3.
TEST_F(DeviceTraining, AWideModelHasTheValuesOfPyTorch) {
  const WideModel model;
  const Trajectory golden = trajectory_of(model.folder());
  for (const std::string part_bytes : {"536870912", "1"})
    for (const auto& [dtype, tolerance] : {std::pair("float32", Tolerance{1e-5, 1e-4}), {"bf16", {1e-3, 2e-2}}}) {
      const RunResult run = run_flags_on_device(trajectory_flags(model.folder(), 1),
                                                {"--dtype=" + std::string(dtype), "--batch_size=2", "--grad-accum=1",
                                                 "--cuda.debug-part-bytes=" + part_bytes});
      ASSERT_EQ(run.steps.size(), golden.loss.size());
      for (size_t i = 0; i < golden.loss.size(); ++i) {
        EXPECT_NEAR(run.steps[i].loss, golden.loss[i], tolerance.loss * golden.loss[i]) << dtype << " step " << i;
        EXPECT_NEAR(run.steps[i].grad_norm, golden.grad_norm[i], tolerance.norm * golden.grad_norm[i])
            << dtype << " step " << i;
      }
    }
}

TEST_F(DeviceTraining, ARunRepeatsBitForBit) {
  EXPECT_EQ(first_difference(run_on_device({"--dtype=bf16"}), run_on_device({"--dtype=bf16"})), "");
}

TEST_F(DeviceTraining, GraphsChangeNoBit) {
  for (const std::string dtype : {"float32", "bf16"}) {
    const RunResult with = run_on_device({"--dtype=" + dtype, "--cuda-graph=auto"});
    const RunResult without = run_on_device({"--dtype=" + dtype, "--cuda-graph=off"});
    EXPECT_EQ(first_difference(with, without), "") << dtype;
  }
}

// They run without a graph: before the capture, and between two launches of what was captured.
TEST_F(DeviceTraining, StepsOfAProfileChangeNoBit) {
  const RunResult plain = run_on_device({});
  for (const char* steps : {"--profile=2", "--profile=3"})
    EXPECT_EQ(first_difference(run_on_device({steps}), plain), "") << steps;
}

TEST_F(DeviceTraining, RecomputationChangesNoBit) {
  EXPECT_EQ(first_difference(run_on_device({"--dtype=bf16", "--recompute=full"}), run_on_device({"--dtype=bf16"})), "");
}

TEST_F(DeviceTraining, OffloadChangesNoBit) {
  const Flags offload = {"--offload=activations,optimizer-state", "--activations.min-bytes=0", "--offload-chunk=32KiB"};
  for (const Flags& mode : {Flags{"--dtype=float32"}, Flags{"--dtype=bf16", "--recompute=full"}, Flags{"--dtype=fp16"},
                            Flags{"--dtype=bf16", "--cuda-graph=off"}}) {
    Flags with = mode;
    with.insert(with.end(), offload.begin(), offload.end());
    const RunResult moved = run_on_device(with);
    EXPECT_EQ(first_difference(run_on_device(mode), moved), "") << mode[0];
    EXPECT_GT(moved.steps[0].fetched_bytes.value_or(0), 0) << mode[0];
  }
  const RunResult two = run_on_device({"--dtype=bf16", "--steps=5", "--strategy=fsdp"}, 2, 2);
  Flags with = {"--dtype=bf16", "--steps=5", "--strategy=fsdp"};
  with.insert(with.end(), offload.begin(), offload.end());
  EXPECT_EQ(first_difference(two, run_on_device(with, 2, 2)), "");
}

// The host's processor does what the device's does, to the bit (TSR-DEVICE-011).
TEST_F(DeviceTraining, UpdatesOnTheHostChangeNoBit) {
  const Flags updates[] = {
      {"--offload=optimizer-state", "--optimizer-state.update=host", "--offload-chunk=32KiB"},
      {"--offload=optimizer-state", "--optimizer-state.update=host", "--optimizer-state.fraction=0.5"},
      {"--offload=stream", "--stream.update=host"}};
  for (const Flags& mode : {Flags{"--dtype=float32"}, Flags{"--dtype=bf16", "--grad-accum=2"}, Flags{"--dtype=fp16"},
                            Flags{"--dtype=float32", "--optimizer=sgd", "--clip=0.1"}})
    for (const Flags& update : updates) {
      Flags with = mode;
      with.insert(with.end(), update.begin(), update.end());
      EXPECT_EQ(first_difference(run_on_device(mode), run_on_device(with)), "") << mode[0] << " " << update.back();
    }
  const Flags two = {"--dtype=bf16", "--steps=5", "--strategy=fsdp"};
  Flags with = two;
  with.insert(with.end(), updates[2].begin(), updates[2].end());
  EXPECT_EQ(first_difference(run_on_device(two, 2, 2), run_on_device(with, 2, 2)), "");
}

TEST_F(DeviceTraining, ShardingStrategiesGiveTheSameBits) {
  for (const std::string dtype : {"float32", "bf16"})
    for (const int num_ranks : {2, 4}) {
      const auto run = [&](const std::string& strategy) {
        return run_on_device({"--dtype=" + dtype, "--steps=5", "--strategy=" + strategy}, num_ranks, num_ranks);
      };
      const RunResult ddp = run("ddp");
      for (const std::string strategy : {"fsdp", "zero3"})
        EXPECT_EQ(first_difference(ddp, run(strategy)), "") << strategy << ", " << dtype << ", " << num_ranks;
    }
}

struct Mode {
  std::string name;
  int num_ranks, num_data_ranks;
  Flags flags;
};

class DeviceRanks : public DeviceTraining, public ::testing::WithParamInterface<Mode> {};

TEST_P(DeviceRanks, FollowTheTrajectory) {
  const Mode& mode = GetParam();
  expect_trajectory(run_on_device(mode.flags, mode.num_ranks, mode.num_data_ranks), kFloat32, mode.num_data_ranks);
}

std::vector<Mode> modes() {
  std::vector<Mode> all;
  for (const std::string strategy : {"ddp", "fsdp", "zero3"})
    for (const int n : {2, 4})
      all.push_back({strategy + "_" + std::to_string(n), n, n, {"--strategy=" + strategy}});
  all.push_back({"pipeline_2", 2, 1, {"--mesh=pp=2", "--strategy=pp=pipeline"}});
  all.push_back({"tensor_2", 2, 1, {"--mesh=tp=2", "--strategy=tp=tensor"}});
  all.push_back({"pipeline_fsdp_4", 4, 2, {"--mesh=pp=2,dp=2", "--strategy=pp=pipeline,dp=fsdp"}});
  all.push_back({"zero3_tensor_4", 4, 2, {"--mesh=dp=2,tp=2", "--strategy=dp=zero3,tp=tensor"}});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Gloo, DeviceRanks, ::testing::ValuesIn(modes()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tessera::testing
