// The loss of an evaluation after some steps is that of the next step on its tokens, as in PyTorch's trajectory.
#include <gtest/gtest.h>

#include <array>

#include "parity/mesh_run.h"
#include "support/paths.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr int64_t kSteps = 5;  // then the tokens of the next are evaluated

/// This rank's tokens of the step after the last.
std::vector<MicroBatch> batches_of_next_step(const Job& job, const Dataset& data, int rank) {
  const auto reader = data.reader(dataset_use(job));
  for (int64_t i = 0; i < kSteps * job.config.grad_accum; ++i)
    reader->advance();
  std::vector<MicroBatch> batches(static_cast<size_t>(job.config.grad_accum));
  for (MicroBatch& batch : batches) {
    batch = reader->read(job.mesh.data_rank(job.mesh.coordinates(rank)));
    reader->advance();
  }
  return batches;
}

class Evaluation : public ::testing::TestWithParam<MeshRun> {};

TEST_P(Evaluation, HasTheLossOfTheTrajectory) {
  const MeshRun& mesh = GetParam();
  std::vector<std::string> flags = golden_flags(mesh.num_data_ranks);
  std::erase_if(flags, [](const std::string& flag) { return flag.starts_with("--steps="); });
  flags.push_back("--steps=" + std::to_string(kSteps));
  std::vector<double> losses(static_cast<size_t>(mesh.num_ranks));
  mesh.run(flags, "local", [&](const Job& job, const Dataset& data, int rank, RankRuntime& runtime) {
    const auto batches = batches_of_next_step(job, data, rank);
    losses[static_cast<size_t>(rank)] = runtime.run_eval(batches).loss_sum / static_cast<double>(job.tokens_per_step());
  });
  const double expected = golden_trajectory().loss[kSteps];
  EXPECT_NEAR(losses[0], expected, 1e-4 * expected);
  for (const double loss : losses)
    EXPECT_EQ(loss, losses[0]);
}

const MeshRun kMeshes[] = {
    {"dp=1", "dp=ddp", 1, 1},
    {"dp=2", "dp=ddp", 2, 2},
    {"dp=2", "dp=fsdp", 2, 2},
    {"dp=2", "dp=zero3", 2, 2},
    {"pp=2", "pp=pipeline", 2, 1},
    {"tp=2", "tp=tensor", 2, 1},
    {"pp=2,dp=2,tp=2", "pp=pipeline,dp=fsdp,tp=tensor", 8, 2},
};
INSTANTIATE_TEST_SUITE_P(All, Evaluation, ::testing::ValuesIn(kMeshes), mesh_name);

TEST(EvaluationProgram, IsNotCompiledForATrainingThatDoesNotEvaluate) {
  const Log log(LogLevel::off);
  std::vector<std::string> flags = golden_flags(2);
  flags.insert(flags.end(), {"--comm=local", "--plugin-dir=" + plugin_dir()});
  const Job job = make_job(parse_flags(FlagSet::train, flags), 2, log);
  std::array<size_t, 2> num_programs{};
  const auto observer = [&](int rank) {
    RankObserver o;
    o.on_end = [&, rank](RankRuntime& runtime) {
      num_programs[static_cast<size_t>(rank)] = runtime.programs().all().size();
    };
    return o;
  };
  train_thread_ranks(job, *open_data(job), observer, log);
  EXPECT_EQ(num_programs, (std::array<size_t, 2>{2, 2}));  // init and step
}

}  // namespace
}  // namespace tessera::testing
