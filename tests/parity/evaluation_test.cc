// The loss of an evaluation after some steps is that of the next step on its tokens, as in PyTorch's trajectory. That
// of a whole file has the same bits however the file is divided, and counts every token once.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "parity/mesh_run.h"
#include "support/paths.h"
#include "support/temp_folder.h"

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

class EvaluationOnMesh : public ::testing::TestWithParam<MeshRun> {};

TEST_P(EvaluationOnMesh, HasTheLossOfTheTrajectory) {
  const MeshRun& mesh = GetParam();
  std::vector<std::string> flags = golden_flags(mesh.num_data_ranks);
  std::erase_if(flags, [](const std::string& flag) { return flag.starts_with("--steps="); });
  flags.push_back("--steps=" + std::to_string(kSteps));
  std::vector<double> losses(static_cast<size_t>(mesh.num_ranks));
  mesh.run(flags, "local", [&](const Job& job, const Dataset& data, int rank, RankRuntime& runtime) {
    const auto batches = batches_of_next_step(job, data, rank);
    losses[static_cast<size_t>(rank)] =
        runtime.run_eval(batches).loss_sum() / static_cast<double>(job.tokens_per_step());
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
INSTANTIATE_TEST_SUITE_P(All, EvaluationOnMesh, ::testing::ValuesIn(kMeshes), mesh_name);

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
  train_thread_ranks(job, open_data(job), observer, log);
  EXPECT_EQ(num_programs, (std::array<size_t, 2>{2, 2}));  // init and step
}

// ---- whole files ---------------------------------------------------------------------------------------------

/// The evaluations of a run, as rank 0 saw them.
std::vector<EvalMetrics> evaluations_of(FlagSet set, std::vector<std::string> flags, int num_ranks = 1) {
  flags.insert(flags.end(), {"--comm=local", "--threads=1", "--plugin-dir=" + plugin_dir()});
  const Job job = make_job(parse_flags(set, flags), num_ranks, Log(LogLevel::off));
  std::vector<EvalMetrics> evaluations;
  const auto observer = [&](int rank) {
    RankObserver o;
    if (rank == 0) o.on_eval = [&](const EvalMetrics& evaluation) { evaluations.push_back(evaluation); };
    return o;
  };
  train_thread_ranks(job, open_data(job), observer, Log(LogLevel::off));
  return evaluations;
}

/// `tessera eval` of the golden model on tokens.
EvalMetrics evaluation(const std::string& data, std::vector<std::string> more, int num_ranks = 1) {
  more.insert(more.end(), {"--model=" + golden_folder(), "--data=" + data, "--seq-len=16"});
  const std::vector<EvalMetrics> all = evaluations_of(FlagSet::eval, more, num_ranks);
  EXPECT_EQ(all.size(), 1u);
  return all.at(0);
}

const std::string kTokens = golden_folder() + "/tokens.bin";  // 5,000

/// oneDNN's products for AVX-512 add in one order whatever the number of rows; those for older processors do not.
double error_of_other_rows(double loss) {
  return __builtin_cpu_supports("avx512f") ? 0 : 1e-8 * loss;
}

TEST(WholeFile, HasTheSameBitsWhateverTheBatches) {
  const EvalMetrics one = evaluation(kTokens, {"--batch-size=1"});
  EXPECT_EQ(one.num_items, 4999);
  EXPECT_EQ(one.perplexity, std::exp(one.loss));
  EXPECT_FALSE(one.bits_per_byte);
  for (const int batch : {2, 3, 7, 64, 313, 400}) {  // 313 sequences are the file
    const double loss = evaluation(kTokens, {"--batch-size=" + std::to_string(batch)}).loss;
    EXPECT_NEAR(loss, one.loss, error_of_other_rows(one.loss)) << batch;
  }
}

TEST(WholeFile, HasTheSameBitsWhateverTheMesh) {
  const std::vector<std::string> same = {"--batch-size=5"};
  const double one = evaluation(kTokens, same).loss;
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), same.begin(), same.end());
    return more;
  };
  EXPECT_EQ(evaluation(kTokens, with({"--nproc=3"}), 3).loss, one);
  for (const MeshRun& mesh : kMeshes) {
    const std::vector<std::string> flags = with({"--mesh=" + mesh.mesh, "--strategy=" + mesh.strategies});
    const double loss = evaluation(kTokens, flags, mesh.num_ranks).loss;
    // Ranks that split tensors add partial sums in another order.
    if (mesh.strategies.find("tensor") == std::string::npos)
      EXPECT_EQ(loss, one) << mesh.mesh << " " << mesh.strategies;
    else
      EXPECT_NEAR(loss, one, 1e-7 * one) << mesh.mesh << " " << mesh.strategies;
  }
}

/// Raw uint16 tokens of the golden data.
std::string some_tokens(const TempFolder& folder, const std::string& name, size_t begin, size_t end) {
  const std::string all = file_bytes(kTokens).substr(1024);
  return folder.write(name, all.substr(2 * begin, 2 * (end - begin)));
}

TEST(WholeFile, IsTheSumOfItsParts) {
  const TempFolder folder;
  const auto sum = [&](size_t begin, size_t end) {
    const EvalMetrics part = evaluation(some_tokens(folder, "part.bin", begin, end), {"--batch-size=3"});
    EXPECT_EQ(part.num_items, end - begin - 1);
    return part.loss * static_cast<double>(part.num_items);
  };
  const double all = sum(0, 1010), head = sum(0, 961), tail = sum(960, 1010), two = sum(960, 962);
  EXPECT_NEAR(head + tail, all, 1e-10 * all);
  EXPECT_GT(two, 0);
  EXPECT_LT(two, tail);
}

TEST(WholeFile, IsTheLossOfAStepThatTakesAllOfIt) {
  const TempFolder folder;
  const std::string data = some_tokens(folder, "a.bin", 0, 321);
  const RunResult run =
      run_local({"--model=" + golden_folder(), "--data=" + data, "--seq-len=16", "--batch-size=20", "--steps=1"}, 1);
  EXPECT_EQ(evaluation(data, {"--batch-size=7"}).loss, run.steps[0].loss);
}

TEST(Batches, AreTheFirstOfTheFile) {
  const TempFolder folder;
  const EvalMetrics two = evaluation(kTokens, {"--batch-size=4", "--eval-batches=2"});
  EXPECT_EQ(two.num_items, 2 * 4 * 16);
  EXPECT_EQ(two.loss, evaluation(some_tokens(folder, "a.bin", 0, 129), {"--batch-size=1"}).loss);
  EXPECT_EQ(evaluation(kTokens, {"--batch-size=400", "--eval-batches=2"}).num_items, 4999);
  EXPECT_EQ(evaluation(kTokens, {"--batch-size=100", "--eval-batches=3"}).num_items, 3 * 100 * 16) << "not the rest";
}

TEST(Training, IsNotChangedByItsEvaluations) {
  std::vector<std::string> flags = golden_flags(2);
  flags.push_back("--mesh=dp=2");
  const RunResult plain = run_local(flags, 2);
  flags.insert(flags.end(), {"--eval-data=" + kTokens, "--eval-every=7"});
  EXPECT_EQ(first_difference(plain, run_local(flags, 2)), "");
  const std::vector<EvalMetrics> all = evaluations_of(FlagSet::train, flags, 2);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].after_step, 7);
  EXPECT_EQ(all[1].after_step, 14);
  EXPECT_EQ(all[2].after_step, 20);
  EXPECT_LT(all[2].loss, all[0].loss);
}

TEST(Classifier, HasTheSameLossAndAccuracyWhateverTheBatches) {
  const std::string digits = source_dir("examples/digits/digits.csv.gz");
  const auto run = [&](int batch, int num_ranks) {
    const std::vector<EvalMetrics> all =
        evaluations_of(FlagSet::train,
                       {"--model=mlp:64,32,10", "--data=" + digits, "--steps=1", "--lr=0",
                        "--batch-size=" + std::to_string(batch), "--eval-data=" + digits},
                       num_ranks);
    EXPECT_EQ(all.size(), 1u);
    return all.at(0);
  };
  const EvalMetrics one = run(1, 1);
  EXPECT_EQ(one.num_items, 1797);
  EXPECT_EQ(one.items, "examples");
  EXPECT_FALSE(one.perplexity);
  EXPECT_NEAR(one.accuracy.value(), 0.1, 0.1);
  for (const auto& [batch, num_ranks] : {std::pair{100, 1}, {1797, 1}, {100, 2}, {41, 3}}) {
    const EvalMetrics other = run(batch, num_ranks);
    EXPECT_NEAR(other.loss, one.loss, error_of_other_rows(one.loss)) << batch << " " << num_ranks;
    EXPECT_EQ(other.accuracy, one.accuracy) << batch << " " << num_ranks;
  }
}

}  // namespace
}  // namespace tessera::testing
