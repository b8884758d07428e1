// --debug-replicas: results that are proved to be the same on several ranks are the same in runs of every strategy, and
// a plugin that flips a bit on one rank is found in the first compared step, at the action that did it.
#include <gtest/gtest.h>

#include "support/local_job.h"
#include "support/paths.h"
#include "tessera/error.hpp"

namespace tessera::testing {
namespace {

using Flags = std::vector<std::string>;

struct Layout {
  std::string mesh, strategies;
  int num_ranks;
  Flags flags;
};

RunResult train(const Layout& layout, const Flags& more, const std::string& comm = "local") {
  Flags flags = {"--model=" + golden_folder(),
                 "--data=" + golden_folder() + "/tokens.bin",
                 "--batch-size=2",
                 "--seq-len=16",
                 "--steps=3",
                 "--lr=0.003",
                 "--grad-accum=2",
                 "--mesh=" + layout.mesh,
                 "--strategy=" + layout.strategies,
                 "--plugin-dir=" + binary_dir("tests/quantized_strategy"),
                 "--plugin-dir=" + binary_dir("tests/devices")};
  flags.insert(flags.end(), layout.flags.begin(), layout.flags.end());
  flags.insert(flags.end(), more.begin(), more.end());
  return run_local(flags, layout.num_ranks, comm);
}

std::string error_of(const Layout& layout, const Flags& more) {
  try {
    train(layout, more);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class ReplicaCheck : public ::testing::TestWithParam<Layout> {};

TEST_P(ReplicaCheck, FindsNothingAndChangesNothing) {
  const RunResult plain = train(GetParam(), {});
  EXPECT_EQ(first_difference(plain, train(GetParam(), {"--debug-replicas=1"})), "");
  EXPECT_EQ(first_difference(plain, train(GetParam(), {"--debug-replicas=2"}, "gloo")), "");
}

INSTANTIATE_TEST_SUITE_P(
    Of, ReplicaCheck,
    ::testing::Values(Layout{"dp=3", "dp=ddp", 3, {}}, Layout{"dp=2", "dp=fsdp", 2, {"--offload=stream"}},
                      Layout{"dp=3", "dp=zero3", 3, {"--zero3.stage=1", "--dtype=bf16"}},
                      Layout{"replicate=2,shard=2", "replicate=ddp,shard=fsdp", 4, {}},
                      Layout{"pp=2,dp=2", "pp=pipeline,dp=zero3", 4, {"--device=other"}},
                      Layout{"dp=2,tp=2", "dp=fsdp,tp=tensor", 4, {"--tensor.sequence-parallel=true"}},
                      Layout{"pp=2,dp=2,tp=2", "pp=pipeline,dp=ddp,tp=tensor", 8, {"--dtype=bf16"}},
                      Layout{"dp=2", "dp=quantized", 2, {"--quantized.scheme=sum"}}));

const Layout kDrifts = {"dp=3", "dp=quantized", 3, {"--quantized.fault=drift"}};

TEST(ReplicaCheckFinds, ACallThatGivesOneRankAnotherBit) {
  const std::string error = error_of(kDrifts, {"--debug-replicas=2"});
  EXPECT_NE(error.find("--debug-replicas: in step 2, rank 0 #"), std::string::npos) << error;
  EXPECT_NE(error.find(" call "), std::string::npos)
      << "the action that did it, not one that used its result: " << error;
  EXPECT_NE(error.find("must be identical on all ranks of dp, but the bits of rank 1 differ from those of ranks 0, 2"),
            std::string::npos)
      << error;
}

TEST(ReplicaCheckFinds, ItOnAnAxisThatIsNotTheFirst) {
  const std::string error =
      error_of({"pp=2,dp=2", "pp=pipeline,dp=quantized", 4, {"--quantized.fault=drift"}}, {"--debug-replicas=2"});
  EXPECT_NE(error.find("--debug-replicas: in step 2, rank "), std::string::npos) << error;
  EXPECT_NE(error.find("must be identical on all ranks of dp, but "), std::string::npos) << error;
}

TEST(ReplicaCheckFinds, NothingInStepsThatAreNotCompared) {
  EXPECT_EQ(error_of(kDrifts, {}), "");
  EXPECT_EQ(error_of(kDrifts, {"--debug-replicas=4"}), "") << "the run has three steps";
}

}  // namespace
}  // namespace tessera::testing
