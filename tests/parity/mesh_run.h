// Runs on a mesh, and the golden trajectory under them.
#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <vector>

#include "support/local_job.h"

namespace tessera::testing {

/// A mesh with its strategies and options, as on the command line.
struct MeshRun {
  std::string mesh, strategies;
  int num_ranks, num_data_ranks;
  std::vector<std::string> options = {};

  RunResult run(std::vector<std::string> flags, const std::string& comm = "local", const AtEnd& at_end = {}) const {
    flags.insert(flags.end(), {"--mesh=" + mesh, "--strategy=" + strategies});
    flags.insert(flags.end(), options.begin(), options.end());
    return run_local(flags, num_ranks, comm, at_end);
  }
};

inline std::string mesh_name(const ::testing::TestParamInfo<MeshRun>& test) {
  std::string text = test.param.mesh + "_" + test.param.strategies;
  for (const std::string& option : test.param.options)
    text += "_" + option.substr(option.find('.') + 1);
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return text;
}

/// Loss and gradient norm within 1e-4 of the trajectory, and the same loss on every rank.
inline void expect_golden_trajectory(const MeshRun& mesh) {
  const Trajectory golden = golden_trajectory();
  const RunResult run = mesh.run(golden_flags(mesh.num_data_ranks));
  ASSERT_EQ(run.steps.size(), golden.loss.size());
  EXPECT_EQ(run.num_missing + run.num_contradictions, 0u);
  for (size_t i = 0; i < golden.loss.size(); ++i) {
    EXPECT_NEAR(run.steps[i].loss, golden.loss[i], 1e-4 * golden.loss[i]) << "step " << i;
    EXPECT_NEAR(run.steps[i].grad_norm, golden.grad_norm[i], 1e-4 * golden.grad_norm[i]) << "step " << i;
  }
  for (const double loss : run.final_losses)
    EXPECT_EQ(loss, run.final_losses[0]);
}

}  // namespace tessera::testing
