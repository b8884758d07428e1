// Strategies that cannot be together are refused by name, with what goes instead; what goes together is planned.
#include <gtest/gtest.h>

#include "compile/conflicts.h"
#include "config/usage_error.h"
#include "support/compiled_job.h"
#include "support/expect_error.h"
#include "support/local_job.h"

namespace tessera::testing {
using namespace host;
namespace {

using Flags = std::vector<std::string>;

void plan(const std::string& mesh, const std::string& strategies, Flags more, int num_ranks) {
  more.insert(more.end(), {"--model=" + golden_folder(), "--batch-size=2", "--seq-len=16", "--mesh=" + mesh,
                           "--strategy=" + strategies});
  const CompiledJob job(more, num_ranks);
  EXPECT_EQ(job.diagnostics(), Diagnostics{});
}

struct Pair {
  std::string outer, inner;
  Flags options = {};
  std::string split = "both split the storage of parameters";
};

class Conflicts : public ::testing::TestWithParam<Pair> {};

TEST_P(Conflicts, AreNamed) {
  const auto& [outer, inner, options, split] = GetParam();
  const std::string given = "a=" + outer + ",b=" + inner;
  expect_error<UsageError>(
      [&, options = options] { plan("a=2,b=2", given, options, 4); },
      {"--strategy " + given + ": " + split, "only one axis may", "4 ranks on one axis (b=4)", "a=ddp,b=" + inner});
}

INSTANTIATE_TEST_SUITE_P(Pairs, Conflicts,
                         ::testing::Values(Pair{"fsdp", "fsdp"}, Pair{"fsdp", "zero3"}, Pair{"zero3", "fsdp"},
                                           Pair{"zero3", "zero3"}, Pair{"fsdp", "zero3", {"--zero3.stage=1"}},
                                           Pair{"zero3", "zero3", {"--zero3.stage=2"}},
                                           Pair{"zero3", "fsdp", {"--fsdp.sharding=optimizer_only"}},
                                           Pair{"fsdp", "zero3", {"--fsdp.sharding=optimizer_only", "--zero3.stage=1"}},
                                           Pair{"pipeline", "pipeline", {}, "both split the layers of the model"},
                                           Pair{"tensor", "tensor", {}, "both split the tensors of the model"}));

TEST(Conflicts, AreFoundWithAnAxisBetweenThem) {
  expect_error<UsageError>([] { plan("a=2,b=2,c=2", "a=pipeline,b=ddp,c=pipeline", {}, 8); },
                           {"--strategy a=pipeline,c=pipeline: both split the layers"});
}

TEST(Conflicts, ThatOnlyAPassSeesAreSaidWithoutInternals) {
  for (const char* stage : {"1", "2", "3"})
    expect_error(
        [&] {
          plan("a=2,b=2", "a=fsdp,b=zero3", {"--fsdp.sharding=no_shard", "--zero3.stage=" + std::string(stage)}, 4);
        },
        {"strategy fsdp on axis a", "are already split by the strategy of another axis", "replicate=ddp,shard=fsdp"});
}

TEST(Conflicts, AreNoneBetweenKindsAndWithDdp) {
  for (const char* one : {"fsdp", "zero3", "pipeline", "tensor"}) {
    plan("a=2,b=2", std::string("a=ddp,b=") + one, {}, 4);
    plan("a=2,b=2", std::string("b=ddp,a=") + one, {}, 4);
  }
  plan("a=2,b=2,c=2", "a=pipeline,b=zero3,c=tensor", {}, 8);
}

// Of stages that come around, units of one group are added to their homes at different times.
TEST(InterleavedStages, AreNotSummedInOneGroupForEachMicroBatch) {
  const auto plan_wrapped = [](const char* wrap) {
    plan("pp=2,dp=2", "pp=pipeline,dp=fsdp",
         {"--pipeline.schedule=interleaved_1f1b", "--pipeline.virtual-stages=2", "--grad-accum=2",
          "--reduce-every=micro-batch", std::string("--fsdp.wrap=") + wrap},
         4);
  };
  EXPECT_NO_THROW(plan_wrapped("unit"));
  expect_error([&] { plan_wrapped("root"); },
               {"are summed together, but some of them are added to their homes before"});
}

// As one axis may split the gradients and another the states.
TEST(RolesOfTwoAxes, AreInConflictWhereTheyOverlap) {
  const Mesh mesh({{"a", 2}, {"b", 2}});
  const std::vector<StrategyOnAxis> strategies = {{"first", 0}, {"second", 1}};
  const auto refuse = [&](uint32_t roles) {
    Layout layout(2);
    for (int axis = 0; axis < 2; ++axis) {
      layout[static_cast<size_t>(axis)].axis = axis;
      layout[static_cast<size_t>(axis)].kind = TSR_LAYOUT_SPLIT;
      layout[static_cast<size_t>(axis)].roles = axis == 0 ? 1u << TSR_HOME_M : roles;
    }
    refuse_conflicts(mesh, layout, strategies);
  };
  EXPECT_NO_THROW(refuse(1u << TSR_HOME_GRADIENT));
  expect_error<UsageError>([&] { refuse(1u << TSR_HOME_GRADIENT | 1u << TSR_HOME_M); }, {"a=first,b=second"});
}

}  // namespace
}  // namespace tessera::testing
