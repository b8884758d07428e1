// ddp against one rank and against itself: ranks, buckets, delays and memory checks change nothing they should not.
#include <gtest/gtest.h>

#include "support/compiled_job.h"
#include "support/local_job.h"
#include "support/temp_folder.h"

namespace tessera::testing {
namespace {

const std::vector<std::string> kAdamW = {"--lr=0.003"};

/// 12 micro-batches of 1 x 32 tokens a step, whatever the ranks; ten steps stay before the data wraps.
std::vector<std::string> flags(int num_ranks, std::vector<std::string> more = kAdamW) {
  std::vector<std::string> all = {"--model=" + golden_folder(),
                                  "--data=" + golden_folder() + "/tokens.bin",
                                  "--batch-size=1",
                                  "--seq-len=32",
                                  "--steps=10",
                                  "--grad-accum=" + std::to_string(12 / num_ranks)};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

void expect_near(const RunResult& a, const RunResult& b, double relative) {
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (size_t i = 0; i < a.steps.size(); ++i) {
    EXPECT_NEAR(a.steps[i].loss, b.steps[i].loss, relative * b.steps[i].loss) << "step " << i;
    EXPECT_NEAR(a.steps[i].grad_norm, b.steps[i].grad_norm, relative * b.steps[i].grad_norm) << "step " << i;
  }
}

TEST(Ddp, AnyNumberOfRanksAgreesWithOne) {
  const RunResult one = run_local(flags(1), 1);
  for (int num_ranks : {2, 3, 4})
    expect_near(run_local(flags(num_ranks), num_ranks), one, 1e-4);
}

TEST(Ddp, AllRanksSeeTheSameLoss) {
  const RunResult run = run_local(flags(3), 3);
  for (double loss : run.final_losses)
    EXPECT_EQ(loss, run.final_losses[0]);
}

// The last parameters of a unit are complete first.
TEST(Ddp, SumsPartsOfALargeUnitBesideItsBackward) {
  const CompiledJob job({"--model=" + golden_folder(), "--batch-size=1", "--seq-len=32", "--ddp.bucket-mb=0.004"}, 2);
  const Program& step = job.step(0);
  const auto is_of_block = [&](const Action& action) {
    return is_backward(action.kind) && step.model->segments[static_cast<size_t>(action.segment)].block == 0;
  };
  const auto first = std::ranges::find_if(step.actions, is_of_block);
  const auto last = std::ranges::find_if(step.actions.rbegin(), step.actions.rend(), is_of_block).base();
  EXPECT_GT(std::count_if(first, last,
                          [&](const Action& action) {
                            return action.kind == TSR_ACTION_ALL_REDUCE &&
                                   step.buffer(action.bindings[0].buffer).name == "h.0";
                          }),
            0);
}

class DdpBits : public ::testing::TestWithParam<int> {};

TEST_P(DdpBits, DoNotDependOnBuckets) {
  const RunResult run = run_local(flags(GetParam()), GetParam());
  for (const char* bucket : {"0.5", "0.013", "0.004"})
    EXPECT_TRUE(
        same_bits(run, run_local(flags(GetParam(), {kAdamW[0], std::string("--ddp.bucket-mb=") + bucket}), GetParam())))
        << bucket;
}

TEST_P(DdpBits, DoNotDependOnTimeOrMemory) {
  const RunResult run = run_local(flags(GetParam()), GetParam());
  EXPECT_TRUE(same_bits(run, run_local(flags(GetParam()), GetParam())));
  EXPECT_TRUE(same_bits(run, run_local(flags(GetParam(), {kAdamW[0], "--debug-memory"}), GetParam())));
  EXPECT_TRUE(
      same_bits(run, run_local(flags(GetParam(), {kAdamW[0], "--stream-delay=11", "--debug-memory"}), GetParam())));
}

TEST_P(DdpBits, ReducingEveryMicroBatchAgrees) {
  const std::vector<std::string> often = {kAdamW[0], "--reduce-every=micro-batch"};
  const RunResult run = run_local(flags(GetParam(), often), GetParam());
  expect_near(run, run_local(flags(GetParam()), GetParam()), 1e-4);
  EXPECT_TRUE(same_bits(
      run,
      run_local(flags(GetParam(), {kAdamW[0], "--reduce-every=micro-batch", "--ddp.bucket-mb=0.01"}), GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Ranks, DdpBits, ::testing::Values(3, 4));

/// A model with odd sizes and no weights: initialized from the seed.
std::string odd_model(const TempFolder& folder, const char* activation) {
  folder.write("config.json",
               R"({"model_type": "gpt2", "layer_norm_epsilon": 1e-5, "vocab_size": 101, "n_positions": 40,
    "n_embd": 33, "n_layer": 2, "n_head": 3, "activation_function": ")" +
                   std::string(activation) + "\"}");
  return folder.path();
}

TEST(Ddp, OddSizesAndNoClippingAgreeWithOneRank) {
  for (const char* activation : {"gelu_new", "relu"}) {
    const TempFolder folder;
    const auto odd = [&](int num_ranks) {
      return std::vector<std::string>{"--model=" + odd_model(folder, activation),
                                      "--data=" + golden_folder() + "/tokens.bin",
                                      "--batch-size=2",
                                      "--seq-len=17",
                                      "--steps=8",
                                      "--lr=0.01",
                                      "--clip=0",
                                      "--seed=5",
                                      "--optimizer=adamw",
                                      "--grad-accum=" + std::to_string(6 / num_ranks)};
    };
    const RunResult one = run_local(odd(1), 1);
    EXPECT_LT(one.steps.back().loss, one.steps.front().loss);
    for (int num_ranks : {2, 3})
      expect_near(run_local(odd(num_ranks), num_ranks), one, 1e-4);
  }
}

TEST(Ddp, MomentumAgreesWithOneRank) {
  const std::vector<std::string> sgd = {"--optimizer=sgd", "--beta1=0.9", "--lr=0.1", "--lr-schedule=cosine",
                                        "--warmup-steps=3"};
  const RunResult one = run_local(flags(1, sgd), 1);
  EXPECT_LT(one.steps.back().loss, one.steps.front().loss);
  expect_near(run_local(flags(3, sgd), 3), one, 1e-4);
}

}  // namespace
}  // namespace tessera::testing
