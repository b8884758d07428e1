// However parameters, gradients and optimizer state are split, gathered and reduced, a run has the bits of ddp's. The
// whole matrix is in exhaustive_test.cc; here are combinations in which any two settings meet.
#include <gtest/gtest.h>

#include "parity/sharding_matrix.h"

namespace tessera::testing {
namespace {

/// Every setting, in short runs.
ShardingMatrix& short_runs() {
  static ShardingMatrix matrix(sharding_space(), 10);
  return matrix;
}
/// Every way to split, in long runs.
ShardingMatrix& long_runs() {
  static ShardingMatrix matrix(
      sharding_space()
          .with("mode", {"ddp", "full_shard", "shard_grad_op", "optimizer_only", "no_shard", "zero1", "zero2", "zero3"})
          .with("comm", {"local"})
          .with("debug", {"none"})
          .with("dtype", {"float32", "bf16"})
          .with("reduce-dtype", {"float32"})
          .with("freeze", {"none"})
          .with("recompute", {"none", "full"}),
      100);
  return matrix;
}

class ShortRuns : public ::testing::TestWithParam<Space::Row> {};
class LongRuns : public ::testing::TestWithParam<Space::Row> {};

TEST_P(ShortRuns, HaveTheBitsOfDdp) {
  EXPECT_EQ(short_runs().check(GetParam()), "") << short_runs().space().text(GetParam());
}

TEST_P(LongRuns, HaveTheBitsOfDdp) {
  EXPECT_EQ(long_runs().check(GetParam()), "") << long_runs().space().text(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Sharding, ShortRuns, ::testing::ValuesIn(short_runs().space().covering_pairs()),
                         [](const auto& test) { return short_runs().space().test_name(test.param); });
INSTANTIATE_TEST_SUITE_P(Sharding, LongRuns, ::testing::ValuesIn(long_runs().space().covering_pairs()),
                         [](const auto& test) { return long_runs().space().test_name(test.param); });

// What the contract calls different arithmetic has different bits: the comparisons above can fail.
TEST(ShardingMatrix, ArithmeticThatDiffersShows) {
  const Space& space = short_runs().space();
  const auto run = [&](const char* factor, const char* value) {
    const Space one = space.with("mode", {"full_shard"})
                          .with("mesh", {"3"})
                          .with("accumulation", {"3"})
                          .with("comm", {"local"})
                          .with("debug", {"none"})
                          .with(factor, {value});
    return ShardingMatrix(one, 4).run(one.all().front());
  };
  const RunResult reference = run("mode", "full_shard");
  EXPECT_LT(reference.steps.back().loss, reference.steps.front().loss);
  EXPECT_EQ(first_difference(reference, run("mode", "ddp")), "");
  for (const auto& [factor, value] : {std::pair("reduce-every", "micro-batch"), std::pair("dtype", "bf16"),
                                      std::pair("reduce-dtype", "bf16"), std::pair("mesh", "4")})
    EXPECT_NE(first_difference(reference, run(factor, value)), "") << factor;
}

}  // namespace
}  // namespace tessera::testing
