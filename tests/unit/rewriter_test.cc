// The edit table: what each edit does, and what is refused.
#include "compile/pass_runner.h"

#include <gtest/gtest.h>

#include <functional>

#include "compile/rewriter.h"
#include "program/program_text.h"
#include "support/expect_error.h"
#include "support/gpt2_ddp.h"
#include "support/program_builder.h"

namespace tessera::testing {
using namespace host;
namespace {

std::vector<tsr_slot_spec> describe_on_cpu(const tsr_op& op) {
  return cpu::describe(op);
}

/// A strategy whose pass is a function.
class Lambda final : public Strategy {
 public:
  static constexpr std::string_view kName = "lambda";
  Lambda(std::string_view, std::span<const tsr_option_value>) {}
  explicit Lambda(std::function<void(const ProgramView&, const Edit&)> pass) : pass_(std::move(pass)) {}
  void lower(const ProgramView& view, const Edit& edit) const override { pass_(view, edit); }
  void layout(const ProgramView& view, const tsr_layout_sink& sink) const override {
    const tsr_layout_entry split{
        0, split_axis, TSR_ALL_HOME_ROLES, TSR_LAYOUT_SPLIT, -1, 2, 1, 0, nullptr, view.parameters()[0].num_elements};
    call(sink.add_entry, sink.ctx, &split);
  }
  int split_axis = 0;

 private:
  std::function<void(const ProgramView&, const Edit&)> pass_;
};
using Table = StrategyTable<Lambda, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>;

void run(Program& program, std::function<void(const ProgramView&, const Edit&)> pass) {
  Lambda lambda(std::move(pass));
  Strategy& strategy = lambda;
  run_pass(program, {"lambda", 0, &Table::kInterface, reinterpret_cast<tsr_strategy*>(&strategy)}, describe_on_cpu);
}

class EditTest : public ::testing::Test {
 protected:
  EditTest() {
    x = transient(program, "x", 64);
    y = transient(program, "y", 64);
    for (int i = 0; i < 3; ++i)
      ids.push_back(add_action(program, TSR_ACTION_ZERO, TSR_STREAM_COMPUTE, {write(x)}).id);
  }
  std::vector<uint64_t> order() const {
    std::vector<uint64_t> result;
    for (const Action& action : program.actions)
      result.push_back(action.id);
    return result;
  }
  static uint64_t insert(const Edit& edit, uint64_t anchor, uint32_t where, uint64_t buffer) {
    const tsr_binding whole{buffer, 0, 64, TSR_SLOT(TSR_ROLE_DESTINATION, 0), TSR_MODE_WRITE};
    return edit.insert(anchor, where, make_action(TSR_ACTION_ZERO, TSR_STREAM_COMPUTE), {&whole, 1});
  }

  Model model = toy_model();
  Mesh mesh{{{"dp", 2, TSR_SPLITS_BATCH}}};
  Program program = empty_program(model, mesh, {0});
  uint64_t x = 0, y = 0;
  std::vector<uint64_t> ids;
};

TEST_F(EditTest, InsertsAtOneAnchorKeepTheOrderOfTheCalls) {
  std::vector<uint64_t> before, after;
  run(program, [&](const ProgramView&, const Edit& edit) {
    for (int i = 0; i < 3; ++i) {
      after.push_back(insert(edit, ids[1], TSR_AFTER, y));
      before.push_back(insert(edit, ids[1], TSR_BEFORE, y));
    }
  });
  EXPECT_EQ(order(), (std::vector<uint64_t>{ids[0], before[0], before[1], before[2], ids[1], after[0], after[1],
                                            after[2], ids[2]}));
}

TEST_F(EditTest, AnchorZeroIsTheStartOrTheEnd) {
  uint64_t a = 0, b = 0, c = 0, d = 0;
  run(program, [&](const ProgramView&, const Edit& edit) {
    c = insert(edit, 0, TSR_AFTER, y);
    a = insert(edit, 0, TSR_BEFORE, y);
    b = insert(edit, 0, TSR_BEFORE, y);
    d = insert(edit, 0, TSR_AFTER, y);
  });
  EXPECT_EQ(order(), (std::vector<uint64_t>{a, b, ids[0], ids[1], ids[2], c, d}));
}

TEST_F(EditTest, NewActionsAreAnchorsAtOnceAndRemovedOnesAreNoMore) {
  uint64_t a = 0, b = 0, c = 0;
  run(program, [&](const ProgramView&, const Edit& edit) {
    a = insert(edit, ids[0], TSR_AFTER, y);
    b = insert(edit, a, TSR_BEFORE, y);
    edit.remove(a);
    c = insert(edit, ids[0], TSR_AFTER, y);
    edit.remove(ids[2]);
    expect_error([&] { insert(edit, a, TSR_AFTER, y); }, {"no action"});
  });
  EXPECT_EQ(order(), (std::vector<uint64_t>{ids[0], b, c, ids[1]}));
}

TEST_F(EditTest, RebindMovesActionsAndHomes) {
  Home home{program.next_id++, "h", 0, {}, 64, {}};
  home.roles[TSR_HOME_GRADIENT] = {x, 16, 48};
  program.homes.push_back(home);
  run(program, [&](const ProgramView&, const Edit& edit) {
    edit.rebind(x, edit.add_buffer("big", TSR_BUFFER_GRADIENT, TSR_F32, 200), 100);
    edit.collect_garbage();
  });
  EXPECT_EQ(program.actions[0].bindings[0].offset, 100u);
  EXPECT_EQ(program.homes[0].roles[TSR_HOME_GRADIENT].offset, 116u);
  for (const Buffer& b : program.buffers)
    EXPECT_EQ(b.name, "big");
}

TEST_F(EditTest, ReplacingHomesRebindsTheirActionsOnce) {
  const uint64_t shard = transient(program, "shard", 32, TSR_BUFFER_GRADIENT);
  std::vector<uint64_t> homes;
  for (int i = 0; i < 2; ++i) {
    Home home{program.next_id++, "h" + std::to_string(i), 0, {}, 32, {}};
    home.roles[TSR_HOME_GRADIENT] = {x, 32u * static_cast<unsigned>(i), 32};
    add_action(program, TSR_ACTION_SUM_SQUARES, TSR_STREAM_COMPUTE, {read(x).at(32u * static_cast<unsigned>(i), 32)})
        .home = home.id;
    homes.push_back(home.id);
    program.homes.push_back(home);
  }
  run(program, [&](const ProgramView&, const Edit& edit) {
    tsr_home flat{0, str("flat"), 0, 0, nullptr, 32, {}};
    flat.roles[TSR_HOME_GRADIENT] = {shard, 0, 32};
    uint64_t id = 0;
    call(edit.raw().replace_homes, edit.raw().ctx, homes.data(), homes.size(), &flat, &id);
    EXPECT_NE(id, 0u);
  });
  ASSERT_EQ(program.homes.size(), 1u);
  ASSERT_EQ(program.actions.size(), 4u);
  EXPECT_EQ(program.actions[3].bindings[0].buffer, shard);
  EXPECT_EQ(program.actions[3].home, program.homes[0].id);
}

TEST_F(EditTest, OrderNamesEveryActionOnce) {
  run(program, [&](const ProgramView&, const Edit& edit) {
    const uint64_t reversed[] = {ids[2], ids[1], ids[0]}, doubled[] = {ids[2], ids[2], ids[0]};
    expect_error([&] { call(edit.raw().order, edit.raw().ctx, doubled, uint64_t{3}); }, {"exactly once"});
    call(edit.raw().order, edit.raw().ctx, reversed, uint64_t{3});
  });
  EXPECT_EQ(order(), (std::vector<uint64_t>{ids[2], ids[1], ids[0]}));
}

TEST_F(EditTest, RefusesWhatIsNotThere) {
  run(program, [&](const ProgramView&, const Edit& edit) {
    const tsr_binding outside{x, 60, 8, 0, TSR_MODE_READ}, nowhere{9999, 0, 1, 0, TSR_MODE_READ},
        modeless{x, 0, 1, 0, 9};
    expect_error([&] { edit.bind(ids[0], outside); }, {"outside", "x", "64"});
    expect_error([&] { edit.bind(ids[0], nowhere); }, {"no buffer 9999"});
    expect_error([&] { edit.bind(ids[0], modeless); }, {"mode"});
    expect_error([&] { edit.stream(5, "lane"); }, {"no axis 5"});
    expect_error([&] { edit.stream(0, "a b"); }, {"lane"});
    expect_error([&] { edit.rebind(x, y, 1); }, {"does not fit"});
    expect_error([&] { edit.set_role(12345, 0, {}); }, {"no home"});
    tsr_action action = make_action(TSR_ACTION_ZERO, 77);
    expect_error([&] { edit.insert(0, TSR_AFTER, action, {}); }, {"no stream 77"});
    action = make_action(TSR_ACTION_ALL_REDUCE, edit.stream(0, "lane"));
    expect_error([&] { edit.insert(0, TSR_AFTER, action, {}); }, {"all_reduce names group -1"});
    const int32_t two = 2;
    const tsr_group outside_axis{0, 1, &two};
    int32_t group = 0;
    expect_error([&] { call(edit.raw().add_group, edit.raw().ctx, &outside_axis, &group); }, {"no coordinate 2"});
    const int32_t one = 1;
    const tsr_group others{0, 1, &one};  // may be named, to describe what other ranks do
    action = make_action(TSR_ACTION_BARRIER, edit.stream(0, "lane"));
    call(edit.raw().add_group, edit.raw().ctx, &others, &action.group);
    expect_error([&] { edit.insert(0, TSR_AFTER, action, {}); },
                 {"barrier is for group dp {1}, and coordinate 0 of this rank is outside it"});
    action = make_action(999, 0);
    expect_error([&] { edit.insert(0, TSR_AFTER, action, {}); }, {"999"});
  });
}

TEST_F(EditTest, AFailedPassChangesNothingAndIsNamed) {
  const std::string before = print_program(program);
  expect_error(
      [&] {
        run(program, [&](const ProgramView&, const Edit& edit) {
          edit.remove(ids[0]);
          throw Error(TSR_E_UNSUPPORTED, "no");
        });
      },
      {"lambda", "axis dp", "no"});
  EXPECT_EQ(print_program(program), before);
}

TEST_F(EditTest, WaitsThatBindingsDoNotAskFor) {
  uint64_t second = 0;
  run(program, [&](const ProgramView&, const Edit& edit) {
    tsr_action zero = make_action(TSR_ACTION_ZERO, TSR_STREAM_COPY_IN);
    const tsr_binding whole{y, 0, 64, TSR_SLOT(TSR_ROLE_DESTINATION, 0), TSR_MODE_WRITE};
    second = edit.insert(ids[2], TSR_AFTER, zero, {&whole, 1});
    edit.wait_for(second, ids[0]);
    edit.wait_for(second, ids[1]);
    expect_error([&] { edit.wait_for(second, second); }, {"cannot wait for itself"});
    expect_error([&] { edit.wait_for(second, 999); }, {"no action 999"});
    edit.remove(ids[1]);  // the wait goes with it
  });
  derive_dependencies(program);
  EXPECT_EQ(program.actions.back().id, second);
  EXPECT_EQ(program.actions.back().dependencies, (std::vector<uint32_t>{0}));
}

TEST_F(EditTest, AWaitForALaterActionIsRefused) {
  run(program, [&](const ProgramView&, const Edit& edit) { edit.wait_for(ids[0], ids[2]); });
  expect_error([&] { derive_dependencies(program); }, {"a pass makes action 0", "which is not before it"});
}

TEST_F(EditTest, ALayoutSpeaksOfItsOwnAxisOnly) {
  Lambda lambda([](const ProgramView&, const Edit&) {});
  Strategy& strategy = lambda;
  const StrategyOnAxis on_axis{"lambda", 0, &Table::kInterface, reinterpret_cast<tsr_strategy*>(&strategy)};
  add_layout(program, on_axis);
  ASSERT_EQ(program.layout.size(), 1u);
  EXPECT_EQ(program.layout[0].parts, 2u);
  lambda.split_axis = 1;
  expect_error([&] { add_layout(program, on_axis); }, {"own axis"});
}

TEST(SplitBackward, GivesTwoHalvesThatTogetherBindTheWhole) {
  const Gpt2Ddp gpt2(1, TSR_EVERY_STEP, 1);
  Program program = gpt2.base(0);
  const Program whole = program;
  run(program, [&](const ProgramView& view, const Edit& edit) {
    for (const tsr_action& action : view.actions()) {
      if (action.kind != TSR_ACTION_BACKWARD) continue;
      const Edit::Halves halves = edit.split_backward(action.id);
      EXPECT_TRUE(halves.input || halves.weight);
    }
  });
  EXPECT_EQ(nth_action(program, TSR_ACTION_BACKWARD), program.actions.size());
  const auto writes = [](const Program& p) {
    std::vector<std::pair<uint64_t, uint64_t>> result;
    for (const Action& action : p.actions)
      for (const Binding& b : action.bindings)
        if (b.mode == TSR_MODE_ADD) result.emplace_back(b.buffer, b.offset);
    std::ranges::sort(result);
    return result;
  };
  EXPECT_EQ(writes(program), writes(whole));
}

}  // namespace
}  // namespace tessera::testing
