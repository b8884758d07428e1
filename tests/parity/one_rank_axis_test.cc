// An axis of one rank splits nothing: beside a real axis, whatever its strategy, no bit changes.
#include <gtest/gtest.h>

#include "parity/mesh_run.h"
#include "support/expect_error.h"

namespace tessera::testing {
namespace {

const std::string kStrategies[] = {"ddp", "fsdp", "zero3", "pipeline", "tensor"};

std::vector<std::string> flags() {
  return {"--model=" + golden_folder(),
          "--data=" + golden_folder() + "/tokens.bin",
          "--batch-size=1",
          "--seq-len=8",
          "--steps=2",
          "--lr=0.01",
          "--grad-accum=2"};
}

class OneRankAxis : public ::testing::TestWithParam<std::string> {};

TEST_P(OneRankAxis, ChangesNoBitBesideAnother) {
  const std::string& real = GetParam();
  const RunResult alone = MeshRun{"b=2", "b=" + real, 2, 2}.run(flags());
  EXPECT_NE(alone.steps.back().loss, alone.steps.front().loss);
  for (const std::string& one : kStrategies)
    for (const char* mesh : {"a=1,b=2", "b=2,a=1"})
      EXPECT_EQ(first_difference(alone, MeshRun{mesh, "a=" + one + ",b=" + real, 2, 2}.run(flags())), "")
          << mesh << " with " << one << " on the axis of one rank";
}

INSTANTIATE_TEST_SUITE_P(Beside, OneRankAxis, ::testing::ValuesIn(kStrategies),
                         [](const auto& test) { return test.param; });

TEST(OneRankAxes, AreOneRankWithoutAStrategy) {
  const RunResult one = run_local(flags(), 1);
  for (const std::string& strategy : kStrategies)
    EXPECT_EQ(first_difference(one, MeshRun{"a=1", strategy, 1, 1}.run(flags())), "") << strategy;
  EXPECT_EQ(first_difference(one, MeshRun{"a=1,b=1,c=1", "a=fsdp,b=zero3,c=fsdp", 1, 1}.run(flags())), "");
}

TEST(OneRankAxes, CheckOptionsAsOthersDo) {
  expect_error(
      [] {
        MeshRun{"a=1", "fsdp", 1, 1, {"--fsdp.wrap=bogus"}}.run(flags());
      },
      {"--fsdp.wrap is 'bogus'", "see tessera plugins info fsdp"});
  MeshRun{"a=1", "pipeline", 1, 1, {"--pipeline.schedule=interleaved_1f1b", "--pipeline.virtual-stages=2"}}.run(
      flags());
}

}  // namespace
}  // namespace tessera::testing
