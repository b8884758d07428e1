// Computing activations again changes no bit of a run.
#include <gtest/gtest.h>

#include "support/local_job.h"

namespace tessera::testing {
namespace {

struct Case {
  int num_ranks, grad_accum;
};

class RecomputeBits : public ::testing::TestWithParam<Case> {
 protected:
  static RunResult run(std::vector<std::string> more) {
    std::vector<std::string> flags = {"--model=" + golden_folder(),
                                      "--data=" + golden_folder() + "/tokens.bin",
                                      "--batch-size=2",
                                      "--seq-len=24",
                                      "--steps=4",
                                      "--lr=0.003",
                                      "--grad-accum=" + std::to_string(GetParam().grad_accum)};
    flags.insert(flags.end(), more.begin(), more.end());
    return run_local(flags, GetParam().num_ranks);
  }
};

TEST_P(RecomputeBits, AreThoseWithout) {
  const RunResult none = run({});
  EXPECT_LT(none.steps.back().loss, none.steps.front().loss);
  for (const char* recompute : {"full", "every=2", "every=3", "attention"})
    EXPECT_TRUE(same_bits(none, run({std::string("--recompute=") + recompute}))) << recompute;
}

TEST_P(RecomputeBits, DoNotDependOnTimeOrMemory) {
  const RunResult none = run({});
  for (const char* recompute : {"full", "every=2", "attention"}) {
    const std::string flag = std::string("--recompute=") + recompute;
    EXPECT_TRUE(same_bits(none, run({flag, "--debug-memory"}))) << recompute;
    EXPECT_TRUE(same_bits(none, run({flag, "--debug-memory", "--stream-delay=7"}))) << recompute;
  }
}

TEST_P(RecomputeBits, AreThoseWithoutWhenEveryMicroBatchIsReduced) {
  const std::string often = "--reduce-every=micro-batch";
  const RunResult none = run({often});
  for (const char* recompute : {"full", "attention"})
    EXPECT_TRUE(same_bits(none, run({often, std::string("--recompute=") + recompute}))) << recompute;
}

TEST_P(RecomputeBits, AreThoseWithoutWhenStorageIsSplit) {
  const RunResult ddp = run({});
  for (const char* strategy : {"fsdp", "zero3"})
    for (const char* recompute : {"full", "every=2", "attention"}) {
      const std::vector<std::string> flags = {std::string("--strategy=") + strategy,
                                              std::string("--recompute=") + recompute, "--debug-memory"};
      EXPECT_TRUE(same_bits(ddp, run(flags))) << strategy << " " << recompute;
    }
}

INSTANTIATE_TEST_SUITE_P(Jobs, RecomputeBits, ::testing::Values(Case{1, 1}, Case{1, 2}, Case{3, 1}, Case{3, 2}),
                         [](const auto& test) {
                           return "ranks_" + std::to_string(test.param.num_ranks) + "_accum_" +
                                  std::to_string(test.param.grad_accum);
                         });

}  // namespace
}  // namespace tessera::testing
