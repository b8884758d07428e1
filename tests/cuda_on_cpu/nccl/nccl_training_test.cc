// Whole runs over an emulated NCCL on emulated GPUs: every strategy follows the golden trajectory, and its steps run as
// graphs from the second on, without changing a bit; nor does what leaves the GPUs' memory, or is updated on the host.
#include <gtest/gtest.h>

#include <cstdlib>

#include "parity/mesh_run.h"
#include "support/temp_folder.h"

namespace tessera::testing {
namespace {

constexpr size_t kSteps = 3;  // the second is captured, the third runs again what was

RunResult run_on_gpus(const MeshRun& mesh, const std::string& graphs, const std::vector<std::string>& more = {}) {
  std::vector<std::string> flags = golden_flags(mesh.num_data_ranks);
  std::erase_if(flags, [](const std::string& flag) { return flag.starts_with("--steps="); });
  flags.push_back("--steps=" + std::to_string(kSteps));
  flags.push_back(std::string("--device=") + std::getenv("TESSERA_TEST_DEVICE"));
  flags.push_back("--cuda-graph=" + graphs);
  flags.insert(flags.end(), more.begin(), more.end());
  return mesh.run(flags, std::getenv("TESSERA_TEST_COMMUNICATOR"));
}

class NcclTraining : public ::testing::TestWithParam<MeshRun> {};

TEST_P(NcclTraining, FollowsTheTrajectoryWithTheSameBitsInGraphs) {
  const Trajectory golden = golden_trajectory();
  const RunResult run = run_on_gpus(GetParam(), "auto");
  ASSERT_EQ(run.steps.size(), kSteps);
  EXPECT_EQ(run.num_missing + run.num_contradictions, 0u);
  for (size_t i = 0; i < kSteps; ++i) {
    EXPECT_NEAR(run.steps[i].loss, golden.loss[i], 1e-4 * golden.loss[i]) << "step " << i;
    EXPECT_NEAR(run.steps[i].grad_norm, golden.grad_norm[i], 1e-4 * golden.grad_norm[i]) << "step " << i;
  }
  EXPECT_EQ(first_difference(run, run_on_gpus(GetParam(), "off")), "");
}

const MeshRun kMeshes[] = {
    {"dp=2", "dp=ddp", 2, 2},
    {"dp=2", "dp=fsdp", 2, 2},
    {"pp=2", "pp=pipeline", 2, 1, {"--pipeline.schedule=interleaved_1f1b", "--pipeline.virtual-stages=2"}},
    {"pp=2,dp=2", "pp=pipeline,dp=fsdp", 4, 2},
    {"dp=2,tp=2", "dp=zero3,tp=tensor", 4, 2},
};
INSTANTIATE_TEST_SUITE_P(All, NcclTraining, ::testing::ValuesIn(kMeshes), mesh_name);

TEST(NcclOffload, HasTheSameBitsInGraphsAndWithout) {
  const std::vector<std::string> offload = {"--offload=activations,optimizer-state", "--activations.min-bytes=0",
                                            "--offload-chunk=32KiB"};
  for (const MeshRun& mesh : {MeshRun{"dp=2", "dp=fsdp", 2, 2, {"--dtype=bf16", "--recompute=full"}},
                              MeshRun{"pp=2,dp=2", "pp=pipeline,dp=ddp", 4, 2}}) {
    const RunResult without = run_on_gpus(mesh, "auto");
    for (const std::string graphs : {"auto", "off"}) {
      const RunResult with = run_on_gpus(mesh, graphs, offload);
      EXPECT_EQ(first_difference(without, with), "") << mesh.mesh << ", graphs " << graphs;
      EXPECT_GT(with.steps[0].evicted_bytes.value_or(0), 0) << mesh.mesh;
    }
  }
}

// Such steps are not graphs: the host's threads and the GPU wait for one another through semaphores.
TEST(NcclOffload, HasTheSameBitsWithFilesAndUpdatesOnTheHost) {
  const TempFolder folder;
  const std::string files = "--offload-dir=" + folder.path();
  const std::vector<std::vector<std::string>> policies = {
      {"--offload=optimizer-state", "--optimizer-state.update=host"},
      {"--offload=optimizer-state", "--optimizer-state.update=host", "--optimizer-state.fraction=0.5",
       "--optimizer-state.gradients=true"},
      {"--offload=stream", "--stream.update=host"},
      {"--offload=stream", "--stream.to=file", files},
      {"--offload=activations,optimizer-state", "--optimizer-state.to=file", files},
  };
  const MeshRun mesh{"dp=2", "dp=fsdp", 2, 2};
  const RunResult without = run_on_gpus(mesh, "auto");
  for (std::vector<std::string> policy : policies) {
    policy.push_back("--offload-chunk=32KiB");
    const RunResult with = run_on_gpus(mesh, "auto", policy);
    EXPECT_EQ(first_difference(without, with), "") << policy[0] << " " << policy[1];
    EXPECT_GT(with.steps[0].evicted_bytes.value_or(0), 0) << policy[0] << " " << policy[1];
  }
}

}  // namespace
}  // namespace tessera::testing
