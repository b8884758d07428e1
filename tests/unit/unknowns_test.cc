// What a later minor of the ABI, or a third party, brings into a program: passes shard states of optimizers that they
// do not know like those that they do, and leave everything else alone.
#include <utility>

#include <gtest/gtest.h>

#include "ddp.h"
#include "fsdp.h"
#include "support/expect_error.h"
#include "support/gpt2_pass.h"
#include "zero3.h"

namespace tessera::testing {
namespace {

using namespace host;

constexpr uint32_t kThirdState = TSR_HOME_STATE(2), kUnknownRole = 30;

std::unique_ptr<Strategy> make(const std::string& name) {
  if (name == "ddp") return std::make_unique<ddp::Ddp>("dp", OptionValues{{"bucket-mb", "25"}});
  const OptionValues fsdp = {{"sharding", "full_shard"},        {"wrap", "unit"},
                             {"reshard-after-forward", "auto"}, {"prefetch", "", 1},
                             {"backward-prefetch", "pre"},      {"limit-all-gathers", "", 0}};
  if (name == "fsdp") return std::make_unique<fsdp::Fsdp>("dp", fsdp);
  return std::make_unique<zero3::Zero3>("dp", OptionValues{{"stage", "", 3},
                                                           {"partition", "balanced"},
                                                           {"reshard-after-forward", "auto"},
                                                           {"prefetch", "", 1},
                                                           {"backward-prefetch", "pre"},
                                                           {"limit-all-gathers", "", 0}});
}

/// Each trainable home keeps `role` beside its first moment, in a buffer as large.
void add_role(Program& program, uint32_t role) {
  std::map<uint64_t, uint64_t> copies;
  for (Home& home : program.homes) {
    const HomeRole m = std::as_const(home).roles[TSR_HOME_M];
    if (!m.buffer) continue;
    auto [copy, is_new] = copies.try_emplace(m.buffer);
    if (is_new) {
      Buffer buffer = program.buffer(m.buffer);
      buffer.name = program.model->units[static_cast<size_t>(home.unit)].name + " of another role";
      buffer.dtype = TSR_BF16;
      copy->second = program.add_buffer(buffer);
    }
    home.roles[role] = {copy->second, m.offset, m.num_elements};
  }
}

class Unknowns : public ::testing::TestWithParam<const char*> {
 protected:
  const Gpt2Pass gpt2_{2};
  const std::unique_ptr<Strategy> strategy_ = make(GetParam());
};

TEST_P(Unknowns, RolesAreShardedLikeStates) {
  for (const int rank : {0, 1}) {
    const Program program = gpt2_.lowered(*strategy_, rank, TSR_PURPOSE_STEP, [](Program& base) {
      add_role(base, kThirdState);
      add_role(base, kUnknownRole);
    });
    ASSERT_FALSE(program.homes.empty());
    for (const Home& home : program.homes)
      for (const uint32_t role : {kThirdState, kUnknownRole}) {
        const HomeRole &state = home.roles[role], &m = home.roles[TSR_HOME_M];
        EXPECT_EQ(state.offset, m.offset) << home.name;
        EXPECT_EQ(state.num_elements, m.num_elements) << home.name;
        ASSERT_NE(state.buffer, 0u) << home.name;
        const Buffer &its = program.buffer(state.buffer), &of_m = program.buffer(m.buffer);
        EXPECT_EQ(its.num_elements, of_m.num_elements);
        EXPECT_EQ(its.dtype, static_cast<tsr_dtype>(TSR_BF16));
        EXPECT_EQ(its.kind, static_cast<uint32_t>(TSR_BUFFER_OPTIMIZER));
        EXPECT_TRUE(its.persistent);
      }
  }
}

TEST_P(Unknowns, ActionsBuffersMemoriesAndStreamsAreLeftAlone) {
  const auto kinds_of = [](const Program& program) {
    std::vector<std::pair<uint32_t, size_t>> kinds;
    for (const Action& action : program.actions)
      if (action.kind < TSR_FIRST_PRIVATE) kinds.emplace_back(action.kind, action.bindings.size());
    return kinds;
  };
  uint64_t unknown = 0;
  const Program with = gpt2_.lowered(*strategy_, 0, TSR_PURPOSE_STEP, [&](Program& base) {
    base.streams.push_back({"later", TSR_WORLD_AXIS, 77});
    const uint64_t buffer =
        base.add_buffer({0, "later", TSR_FIRST_PRIVATE + 1, TSR_MEMORY_OTHER + 1, TSR_F32, true, 64});
    Action action;
    action.id = unknown = base.next_id++;
    action.kind = TSR_FIRST_PRIVATE + 7;
    action.stream = static_cast<uint32_t>(base.streams.size() - 1);
    action.bindings.push_back({buffer, 0, 64, TSR_SLOT(200, 3), TSR_MODE_ADD});
    base.actions.insert(base.actions.begin() + static_cast<ptrdiff_t>(base.actions.size() / 2), action);
  });
  const auto found = std::ranges::find(with.actions, unknown, &Action::id);
  ASSERT_NE(found, with.actions.end());
  EXPECT_EQ(found->bindings.size(), 1u);
  EXPECT_EQ(with.buffer(found->bindings[0].buffer).memory, TSR_MEMORY_OTHER + 1);
  EXPECT_EQ(kinds_of(with), kinds_of(gpt2_.lowered(*strategy_, 0)));
}

// Purposes from 4 on are the host's: what is a step to one pass must not be to another.
TEST_P(Unknowns, APurposeIsRefused) {
  const auto lower = [&] {
    gpt2_.lowered(*strategy_, 0, TSR_PURPOSE_STEP, [](Program& base) { base.purpose = TSR_PURPOSE_EVAL + 1; });
  };
  expect_error(lower, {"on axis dp", "the unknown purpose 4"});
}

TEST_P(Unknowns, APointAtWhichGradientsAreReducedIsRefused) {
  for (const uint32_t every : {0u, 3u})
    expect_error(
        [&] {
          gpt2_.lowered(*strategy_, 0, TSR_PURPOSE_STEP, [&](Program& base) { base.step_config.reduce_every = every; });
        },
        {"on axis dp", "reduces gradients at an unknown point, " + std::to_string(every)});
}

INSTANTIATE_TEST_SUITE_P(Strategies, Unknowns, ::testing::Values("ddp", "fsdp", "zero3"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace tessera::testing
