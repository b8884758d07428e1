// What a pass sees: of the model, of where values are, and of itself.
#include "compile/edit/program_snapshot.h"

#include <gtest/gtest.h>

#include "passes/shard_model.h"
#include "support/gpt2_pass.h"

namespace tessera::testing {
namespace {

TEST(Snapshot, SegmentsPointToOpAndRule) {
  Gpt2Pass(2).look_at([](const ProgramView& view, const Edit&) {
    for (const tsr_segment& segment : view.segments()) {
      const bool is_loss = segment.op->kind == TSR_OP_LOSS;
      EXPECT_EQ(segment.flags, is_loss ? TSR_SEGMENT_TAIL : 0u) << to_string(segment.name);
      EXPECT_GE(segment.rule->struct_size, sizeof(tsr_segment_rule));
      if (segment.op->kind == TSR_OP_LINEAR) {
        ASSERT_EQ(segment.rule->num_contractions, 1u);
        EXPECT_EQ(segment.rule->contractions[0].reduce, static_cast<uint32_t>(TSR_REDUCE_SUM));
      }
      const std::string name = to_string(segment.name);
      EXPECT_EQ(segment.block, name.starts_with("h.0.") ? 0 : name.starts_with("h.1.") ? 1 : -1) << name;
    }
  });
}

TEST(Snapshot, InputsHaveNamesAndValuesPlacements) {
  Gpt2Pass(2).look_at([](const ProgramView& view, const Edit&) {
    std::vector<std::string> inputs;
    for (const tsr_value& value : view.values()) {
      EXPECT_EQ(value.placements[0].kind, static_cast<uint32_t>(TSR_PLACEMENT_SPLIT));
      EXPECT_EQ(value.placements[0].dim, static_cast<uint32_t>(TSR_DIM_BATCH));
      EXPECT_EQ(value.same_as, -1);
      if (value.kind == TSR_VALUE_INPUT) inputs.push_back(to_string(value.input));
    }
    EXPECT_EQ(inputs, (std::vector<std::string>{"tokens", "targets"}));
  });
}

TEST(Snapshot, HomesHaveTheirRolesByNumberAndStatesAreNamed) {
  Gpt2Pass(2).look_at([](const ProgramView& view, const Edit&) {
    for (const tsr_home& home : view.homes()) {
      ASSERT_EQ(home.num_roles, 4u);
      const uint32_t expected[] = {TSR_HOME_VALUE, TSR_HOME_GRADIENT, TSR_HOME_STATE(0), TSR_HOME_STATE(1)};
      for (uint32_t i = 0; i < 4; ++i) {
        EXPECT_EQ(home.roles[i].number, expected[i]);
        EXPECT_EQ(home.roles[i].granule, 1u);
        EXPECT_EQ(home.roles[i].num_elements, home.num_elements);
      }
      EXPECT_EQ(role_of(home, TSR_HOME_MASTER).buffer, 0u);
    }
    ASSERT_EQ(view.raw.num_states, 2u);
    EXPECT_EQ(to_string(view.raw.states[0]) + to_string(view.raw.states[1]), "mv");
    EXPECT_EQ(view.raw.slice_granule, 1u);
    EXPECT_EQ(view.raw.num_names, 0u);
  });
}

TEST(Snapshot, APassKnowsItselfAndWhoseTokensItHas) {
  const Model model = make_gpt2({.num_layers = 1, .num_heads = 2, .embed = 8, .vocab = 16, .positions = 4, .ffn = 8},
                                {.batch = 1, .seq = 4});
  const Mesh mesh({{"a", 2, TSR_SPLITS_BATCH}, {"tp", 2, TSR_SPLITS_TENSORS}, {"b", 3, TSR_SPLITS_BATCH}});
  const auto role = [](uint32_t number) {
    tsr_strategy_interface table{};
    table.struct_size = sizeof table;
    table.role = number;
    return table;
  };
  const tsr_strategy_interface tensor = role(TSR_STRATEGY_SPLIT_COMPUTE), storage = role(TSR_STRATEGY_SPLIT_STORAGE);
  Program program;
  program.model = &model;
  program.mesh = &mesh;
  program.coordinates = {1, 0, 2};
  program.strategies = {{"ddp", 0, &storage, nullptr}, {"tensor", 1, &tensor, nullptr}};
  const ProgramSnapshot snapshot(program, 1, 1);
  const tsr_program_view& view = snapshot.view();
  EXPECT_EQ(view.axis, 1);
  EXPECT_EQ(view.strategy, 1);
  ASSERT_EQ(view.num_strategies, 2u);
  EXPECT_EQ(to_string(view.strategies[0].name), "ddp");
  EXPECT_EQ(view.strategies[1].axis, 1);
  EXPECT_EQ(view.strategies[1].role, TSR_STRATEGY_SPLIT_COMPUTE);
  ASSERT_EQ(view.num_data_ranks, 1u);
  EXPECT_EQ(view.data_ranks[0], 1 * 3 + 2);
  const ProgramSnapshot of_policy(program, TSR_WORLD_AXIS);
  EXPECT_EQ(of_policy.view().strategy, -1);
}

// One snapshot shows a program to its ranks one after another as a snapshot of each would.
TEST(Snapshot, ShowsAnotherRankOfTheSameProgram) {
  const Model model = make_gpt2({.num_layers = 1, .num_heads = 2, .embed = 8, .vocab = 16, .positions = 4, .ffn = 8},
                                {.batch = 1, .seq = 4});
  const Mesh mesh({{"dp", 3, TSR_SPLITS_BATCH}});
  Program program;
  program.model = &model;
  program.mesh = &mesh;
  program.coordinates = {0};
  program.layout.resize(1);
  ProgramSnapshot snapshot(program, 0);
  program.coordinates = {2};
  program.variant = 5;
  program.layout.resize(2);
  program.layout[1].coordinates = {1, 2};
  snapshot.show_rank_of(program);
  const tsr_program_view& view = snapshot.view();
  ASSERT_EQ(view.num_axes, 1u);
  EXPECT_EQ(view.axes[0].coordinate, 2);
  EXPECT_EQ(view.data_ranks[0], 2);
  EXPECT_EQ(view.variant, 5u);
  ASSERT_EQ(view.num_layout_entries, 2u);
  ASSERT_EQ(view.layout[1].num_coordinates, 2u);
  EXPECT_EQ(view.layout[1].coordinates[1], 2);
  EXPECT_EQ(view.num_parameters, model.parameters.size());
  snapshot.check_unchanged(nullptr);
  program.layout[1].coordinates[1] = 0;
  EXPECT_THROW(snapshot.check_unchanged(nullptr), Error);
  program.layout[1].coordinates[1] = 2;
  const_cast<tsr_parameter*>(view.parameters)->unit = 7;
  EXPECT_THROW(snapshot.check_unchanged(nullptr), Error);
}

// Sequence parallelism: a value in rows, and the same one whole.
TEST(Snapshot, RowsArePlacementsOfTheSameValue) {
  const Model whole = make_gpt2({.num_layers = 1, .num_heads = 2, .embed = 8, .vocab = 16, .positions = 4, .ffn = 8},
                                {.batch = 1, .seq = 4});
  const Mesh mesh({{"tp", 2, TSR_SPLITS_TENSORS}});
  LayoutEntry rows;
  rows.parameter = kNamedDim;
  rows.axis = 0;
  rows.kind = TSR_LAYOUT_SPLIT;
  rows.name = TSR_DIM_ROWS;
  rows.parts = 2;
  const Model local = shard_model(whole, mesh, {0}, {rows});
  Program program;
  program.model = &local;
  program.mesh = &mesh;
  program.coordinates = {0};
  const ProgramSnapshot snapshot(program, 0);
  size_t num_whole = 0;
  for (const tsr_value& value : ProgramView(snapshot.view()).values()) {
    if (value.same_as < 0) continue;
    ++num_whole;
    EXPECT_EQ(value.placements[0].kind, static_cast<uint32_t>(TSR_PLACEMENT_REPLICATED));
    const tsr_value& in_rows = snapshot.view().values[value.same_as];
    EXPECT_EQ(in_rows.placements[0].kind, static_cast<uint32_t>(TSR_PLACEMENT_SPLIT));
    EXPECT_EQ(in_rows.placements[0].dim, static_cast<uint32_t>(TSR_DIM_ROWS));
    EXPECT_EQ(value.num_elements, 2 * in_rows.num_elements);
  }
  EXPECT_GT(num_whole, 0u);
  for (const tsr_parameter& parameter : ProgramView(snapshot.view()).parameters())
    EXPECT_EQ(parameter.partial_axes, to_string(parameter.name).find("ln_") != std::string::npos ||
                                              to_string(parameter.name).ends_with("c_proj.bias") ||
                                              to_string(parameter.name) == "wpe.weight"
                                          ? 1u
                                          : 0u)
        << to_string(parameter.name);
}

}  // namespace
}  // namespace tessera::testing
