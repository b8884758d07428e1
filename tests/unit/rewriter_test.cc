// The edit table: what each edit does, and what is refused.
#include "compile/edit/pass_runner.h"

#include <gtest/gtest.h>

#include <functional>

#include "compile/edit/rewriter.h"
#include "passes/finalize.h"
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
  void layout(const ProgramView& view, const LayoutSink& sink) const override {
    tsr_layout_entry split{};
    split.axis = split_axis;
    split.roles = roles;
    split.kind = TSR_LAYOUT_SPLIT;
    split.dim = -1;
    split.parts = parts;
    split.blocks = 1;
    split.padded_size = view.parameters()[0].num_elements - num_missing;
    split.spare[0] = spare;
    if (dim_name) split.parameter = -1;
    split.name = dim_name;
    sink.add_entry(split);
    if (!second_roles) return;
    split.kind = TSR_LAYOUT_REPLICATED;
    split.roles = second_roles;
    sink.add_entry(split);
  }
  int split_axis = 0;
  uint32_t dim_name = 0, roles = TSR_ALL_HOME_ROLES, second_roles = 0, parts = 2;
  uint64_t spare = 0, num_missing = 0;

 private:
  std::function<void(const ProgramView&, const Edit&)> pass_;
};
using Table = StrategyTable<Lambda, TSR_STRATEGY_SPLIT_STORAGE, TSR_SPLITS_BATCH>;

/// A pass in which an edit was refused is refused as a whole. So passes here run twice: first on a copy, with the edits
/// that are refused, and then without them.
struct Passes {
  bool runs = false, refuses = false;
  int num_refused = 0;
} passes;

template <class Call>
void expect_refusal(const Call& call, const std::vector<std::string>& parts) {
  if (passes.runs && !passes.refuses) return;
  passes.num_refused += passes.runs;
  expect_error(call, parts);
}

void run_once(Program& program, const std::function<void(const ProgramView&, const Edit&)>& pass, bool refuses) {
  Lambda lambda(pass);
  Strategy& strategy = lambda;
  passes = {true, refuses, 0};
  try {
    run_pass(program, {"lambda", 0, &Table::kInterface, reinterpret_cast<tsr_strategy*>(&strategy)}, describe_on_cpu);
  } catch (...) {
    passes.runs = false;
    throw;
  }
  passes.runs = false;
}

void run(Program& program, const std::function<void(const ProgramView&, const Edit&)>& pass) {
  Program copy = program;
  try {
    run_once(copy, pass, true);
    EXPECT_EQ(passes.num_refused, 0) << "a pass was accepted in which an edit had failed";
  } catch (const Error&) {
    if (passes.num_refused == 0) throw;
  }
  run_once(program, pass, false);
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
    expect_refusal([&] { insert(edit, a, TSR_AFTER, y); }, {"action", "does not exist"});
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
    const tsr_home_role gradient{TSR_HOME_GRADIENT, 1, shard, 0, 32};
    const tsr_home flat{0, str("flat"), 0, 0, nullptr, 32, &gradient, 1, 0};
    uint64_t id = 0;
    call(edit.raw().replace_homes, edit.raw().ctx, homes.data(), homes.size(), &flat, &id);
    EXPECT_NE(id, 0u);
  });
  ASSERT_EQ(program.homes.size(), 1u);
  ASSERT_EQ(program.actions.size(), 4u);
  EXPECT_EQ(program.actions[3].bindings[0].buffer, shard);
  EXPECT_EQ(program.actions[3].home, program.homes[0].id);
}

// The homes are named in the other order: the first in the list stays, not the first that is named.
TEST_F(EditTest, OfTheActionsOnReplacedHomesTheFirstInTheListStays) {
  std::vector<uint64_t> homes, squares;
  for (const uint32_t offset : {0u, 32u}) {
    Home home{program.next_id++, "h", 0, {}, 32, {}};
    home.roles[TSR_HOME_GRADIENT] = {x, offset, 32};
    Action& action = add_action(program, TSR_ACTION_SUM_SQUARES, TSR_STREAM_COMPUTE, {read(x).at(offset, 32)});
    action.home = home.id;
    squares.push_back(action.id);
    homes.push_back(home.id);
    program.homes.push_back(home);
  }
  run(program, [&](const ProgramView&, const Edit& edit) {
    const tsr_home_role gradient{TSR_HOME_GRADIENT, 1, x, 0, 64};
    const tsr_home flat{0, str("flat"), 0, 0, nullptr, 64, &gradient, 1, 0};
    edit.replace_homes(std::vector{homes[1], homes[0]}, &flat);
    expect_refusal([&] { edit.replace_homes({&homes[0], 1}, nullptr); }, {"home", "does not exist"});
  });
  ASSERT_EQ(order(), (std::vector{ids[0], ids[1], ids[2], squares[0]}));
  EXPECT_EQ(program.actions[3].bindings[0].num_elements, 32u + 32u);
  EXPECT_EQ(program.homes.size(), 1u);
}

TEST_F(EditTest, OrderNamesEveryActionOnce) {
  run(program, [&](const ProgramView&, const Edit& edit) {
    const uint64_t reversed[] = {ids[2], ids[1], ids[0]}, doubled[] = {ids[2], ids[2], ids[0]};
    expect_refusal([&] { call(edit.raw().order, edit.raw().ctx, doubled, uint64_t{3}); }, {"exactly once"});
    call(edit.raw().order, edit.raw().ctx, reversed, uint64_t{3});
  });
  EXPECT_EQ(order(), (std::vector<uint64_t>{ids[2], ids[1], ids[0]}));
}

// Wherever what was inserted there before has gone.
TEST_F(EditTest, InsertsAfterAnOrderAreNextToTheirAnchor) {
  uint64_t first = 0, second = 0;
  run(program, [&](const ProgramView&, const Edit& edit) {
    first = insert(edit, ids[0], TSR_AFTER, y);
    const uint64_t moved[] = {ids[0], ids[1], ids[2], first};
    call(edit.raw().order, edit.raw().ctx, moved, uint64_t{4});
    second = insert(edit, ids[0], TSR_AFTER, y);
  });
  EXPECT_EQ(order(), (std::vector<uint64_t>{ids[0], second, ids[1], ids[2], first}));
}

TEST_F(EditTest, RefusesWhatIsNotThere) {
  run(program, [&](const ProgramView&, const Edit& edit) {
    const tsr_binding outside{x, 60, 8, 0, TSR_MODE_READ}, nowhere{9999, 0, 1, 0, TSR_MODE_READ},
        modeless{x, 0, 1, 0, 9};
    expect_refusal([&] { edit.bind(ids[0], outside); }, {"outside", "x", "64"});
    expect_refusal([&] { edit.bind(ids[0], nowhere); }, {"buffer 9999 does not exist"});
    expect_refusal([&] { edit.bind(ids[0], modeless); }, {"mode"});
    expect_refusal([&] { edit.stream(5, "lane"); }, {"axis 5 does not exist"});
    expect_refusal([&] { edit.stream(0, "a b"); }, {"lane"});
    expect_refusal([&] { edit.rebind(x, y, 1); }, {"does not fit"});
    const uint64_t shorter = edit.add_buffer("shorter", TSR_BUFFER_STAGING, TSR_BF16, 64);
    expect_refusal([&] { edit.rebind(x, shorter, 0); }, {"does not fit"});
    expect_refusal([&] { edit.set_role(12345, {TSR_HOME_VALUE, 1, 0, 0, 0}); }, {"home 12345 does not exist"});
    tsr_action action = make_action(TSR_ACTION_ZERO, 77);
    expect_refusal([&] { edit.insert(0, TSR_AFTER, action, {}); }, {"stream 77 does not exist"});
    action = make_action(TSR_ACTION_ALL_REDUCE, edit.stream(0, "lane"));
    for (; action.group < 1; ++action.group)
      expect_refusal([&] { edit.insert(0, TSR_AFTER, action, {}); }, {"all_reduce names group"});
    const int32_t one = 1, two = 2;
    const tsr_group outside_axis{0, 1, &two};
    int32_t group = 0;
    expect_refusal([&] { call(edit.raw().add_group, edit.raw().ctx, &outside_axis, &group); }, {"no coordinate 2"});
    const tsr_group others{0, 1, &one};  // may be named, to describe what other ranks do
    action = make_action(TSR_ACTION_BARRIER, edit.stream(0, "lane"));
    call(edit.raw().add_group, edit.raw().ctx, &others, &action.group);
    expect_refusal([&] { edit.insert(0, TSR_AFTER, action, {}); },
                   {"barrier is for group dp {1}, and coordinate 0 of this rank is outside it"});
    expect_refusal([&] { edit.set_role(12345, {TSR_HOME_STATE(16), 1, 0, 0, 0}); }, {"32 is not a role of a home"});
    expect_refusal([&] { edit.set_role(12345, {TSR_HOME_V, 256, x, 0, 1}); }, {"v of a home has granule 256"});
    expect_refusal([&] { edit.add_buffer("b", TSR_FIRST_PRIVATE, TSR_F32, 1); }, {"buffer kind 65536"});
    expect_refusal([&] { edit.add_buffer("b", TSR_BUFFER_STAGING, TSR_F32, 1, false, TSR_MEMORY_OTHER); },
                   {"memory 16"});
    action = make_action(TSR_ACTION_FORWARD, TSR_STREAM_COMPUTE);
    action.segment = static_cast<int32_t>(model.segments.size());  // reserved for ops that passes add
    expect_refusal([&] { edit.insert(0, TSR_AFTER, action, {}); }, {"segment", "does not exist"});
    action = make_action(999, 0);
    expect_refusal([&] { edit.insert(0, TSR_AFTER, action, {}); }, {"999"});
  });
}

// Spare words must be 0: any other value was set to mean something.
TEST_F(EditTest, RefusesSpareWordsThatAreNotZero) {
  Home home{program.next_id++, "h", 0, {}, 64, {}};
  program.homes.push_back(home);
  run(program, [&](const ProgramView&, const Edit& edit) {
    const auto& raw = edit.raw();
    uint64_t id = 0;
    int32_t index = 0;
    const auto refuse = [&](const std::string& name, auto given, const auto& use) {
      given.spare[std::size(given.spare) - 1] = 1;
      expect_refusal([&] { use(given); }, {name, "spare or reserved", "ABI 0.12"});
    };
    refuse("tsr_binding", tsr_binding{x, 0, 1, 0, TSR_MODE_READ}, [&](const auto& b) { edit.bind(ids[0], b); });
    refuse("tsr_action", make_action(TSR_ACTION_ZERO, 0), [&](const auto& a) { edit.insert(0, TSR_AFTER, a, {}); });
    refuse("tsr_group", tsr_group{0, 0, nullptr}, [&](const auto& g) { call(raw.add_group, raw.ctx, &g, &index); });
    refuse("tsr_buffer", tsr_buffer{0, 8, str("b"), TSR_BUFFER_STAGING, TSR_MEMORY_DEVICE, TSR_F32, 0, -1, 0},
           [&](const auto& b) { call(raw.add_buffer, raw.ctx, &b, &id); });
    refuse("tsr_home_role", tsr_home_role{TSR_HOME_VALUE, 1, x, 0, 64},
           [&](const auto& role) { edit.set_role(home.id, role); });
    refuse("tsr_home", tsr_home{0, str("h"), 0, 0, nullptr, 64, nullptr, 0, 0}, [&](const auto& h) {
      edit.replace_homes({&home.id, 1}, &h);
    });
    refuse("tsr_piece", tsr_piece{0, 0, 0, 1, 0}, [&](const auto& piece) {
      const tsr_home one{0, str("h"), 0, 1, &piece, 64, nullptr, 0, 0};
      edit.replace_homes({&home.id, 1}, &one);
    });
    tsr_buffer reserved{0, 8, str("b"), TSR_BUFFER_STAGING, TSR_MEMORY_DEVICE, TSR_F32, 0, -1, 0};
    reserved.reserved = 1;
    expect_refusal([&] { call(raw.add_buffer, raw.ctx, &reserved, &id); }, {"tsr_buffer", "spare or reserved"});
  });
}

TEST_F(EditTest, RefusesFlagsThatHaveNoName) {
  run(program, [&](const ProgramView&, const Edit& edit) {
    uint64_t id = 0;
    const tsr_buffer buffer{0,  8, str("b"), TSR_BUFFER_STAGING, TSR_MEMORY_DEVICE, TSR_F32, TSR_BUFFER_PERSISTENT | 6u,
                            -1, 0};
    expect_refusal([&] { call(edit.raw().add_buffer, edit.raw().ctx, &buffer, &id); },
                   {"tsr_buffer has the unknown flags 6", "ABI 0.12"});
    tsr_action action = make_action(TSR_ACTION_ZERO, 0);
    action.flags = 0x80000000u;
    expect_refusal([&] { edit.insert(0, TSR_AFTER, action, {}); }, {"tsr_action has the unknown flags 2147483648"});
  });
}

// They would be part of the program's text, which ranks compare and files keep.
TEST_F(EditTest, RefusesNamesThatAreNotText) {
  run(program, [&](const ProgramView&, const Edit& edit) {
    for (const std::string_view name : {"two\nlines", "a \x1b[31m", "\xff\xfe", "a\n  b"})
      expect_refusal([&] { edit.add_buffer(name, TSR_BUFFER_STAGING, TSR_F32, 1); },
                     {"the buffer's name is not UTF-8 or has control characters"});
    edit.add_buffer("Größe h.0", TSR_BUFFER_STAGING, TSR_F32, 1);
    uint64_t id = 0;
    const tsr_buffer no_text{0, 8, {nullptr, 5}, TSR_BUFFER_STAGING, TSR_MEMORY_DEVICE, TSR_F32, 0, -1, 0};
    expect_refusal([&] { call(edit.raw().add_buffer, edit.raw().ctx, &no_text, &id); },
                   {"name is NULL, with a count of 5"});
  });
}

TEST_F(EditTest, AFailedPassChangesNothingAndIsNamed) {
  const std::string before = print_program(program);
  expect_refusal(
      [&] {
        run(program, [&](const ProgramView&, const Edit& edit) {
          edit.remove(ids[0]);
          throw Error(TSR_E_UNSUPPORTED, "no");
        });
      },
      {"lambda", "axis dp", "no"});
  EXPECT_EQ(print_program(program), before);
}

/// The sum over the stages that have a parameter is inserted where the host would, once, and the host finds it there.
TEST_F(EditTest, SumsAGradientOverItsStagesOnRequest) {
  const Mesh stages({{"pp", 3, TSR_SPLITS_LAYERS}});
  Program p = empty_program(model, stages, {0});
  const uint64_t tied = transient(p, "tied", 512, TSR_BUFFER_GRADIENT),
                 own = transient(p, "own", 256, TSR_BUFFER_GRADIENT);
  const auto home = [&p](const char* name, int unit, uint64_t gradient, uint64_t num_elements) {
    Home made{p.next_id++, name, unit, {{unit, 0, 0, num_elements, 0}}, num_elements, {}};
    made.roles[TSR_HOME_GRADIENT] = {gradient, 0, num_elements};
    p.homes.push_back(made);
    return made.id;
  };
  const uint64_t of_two = home("wte", 0, tied, 512), of_one = home("h.0", 1, own, 256);
  LayoutEntry& entry = p.layout.emplace_back();
  entry.parameter = entry.axis = 0;
  entry.coordinates = {0, 2};
  const uint64_t writer = add_action(p, TSR_ACTION_ZERO, 0, {write(tied)}).id;
  const uint64_t reader = add_action(p, TSR_ACTION_COPY, 0, {read(tied), write(transient(p, "copy", 512))}).id;
  uint64_t sum = 0;
  run(p, [&](const ProgramView&, const Edit& edit) {
    EXPECT_EQ(edit.complete(of_one), 0u);
    sum = edit.complete(of_two);
    EXPECT_EQ(edit.complete(of_two), sum);
    insert(edit, sum, TSR_AFTER, edit.add_buffer("y", TSR_BUFFER_PLUGIN, TSR_F32, 64));
    expect_refusal([&] { edit.complete(999); }, {"home 999 does not exist"});
  });
  finalize_program(p);
  ASSERT_EQ(p.actions.size(), 4u);
  EXPECT_EQ(p.actions[0].id, writer);
  EXPECT_EQ(p.actions[1].id, sum);
  EXPECT_EQ(p.actions[3].id, reader);
  EXPECT_EQ(p.groups[p.actions[1].group].coordinates, (std::vector<int>{0, 2}));
  EXPECT_EQ(p.actions[1].home, of_two);
}

TEST_F(EditTest, DescribesStateOfItsOwnOnly) {
  run(program, [&](const ProgramView&, const Edit& edit) {
    const uint64_t own = edit.add_buffer("velocity", TSR_BUFFER_PLUGIN, TSR_F32, 64, true);
    const uint64_t passing = edit.add_buffer("passing", TSR_BUFFER_PLUGIN, TSR_F32, 64);
    for (const uint64_t other : {x, passing})
      expect_refusal([&] { edit.describe_state(other, 1, TSR_ON_CHANGE_KEEP); },
                     {"is not a persistent one of the strategy's own"});
    expect_refusal([&] { edit.describe_state(77, 1, TSR_ON_CHANGE_KEEP); }, {"77"});
    for (const uint32_t unknown : {0u, 4u})
      expect_refusal([&] { edit.describe_state(own, 1, unknown); }, {"does not say what becomes of state"});
    const auto describe = [&](const tsr_state_description* state) {
      call(edit.raw().describe_state, edit.raw().ctx, own, state);
    };
    const tsr_state_description spare{sizeof spare, 1, TSR_ON_CHANGE_KEEP, 1}, small{8, 1, TSR_ON_CHANGE_KEEP, 0};
    expect_refusal([&] { describe(&spare); }, {"the reserved word of the description of state is not 0"});
    expect_refusal([&] { describe(&small); }, {"the description of state has struct_size 8, which is too small"});
    expect_refusal([&] { describe(nullptr); }, {"the description of state"});
    edit.describe_state(own, 2, TSR_ON_CHANGE_KEEP);
    edit.describe_state(own, 2, TSR_ON_CHANGE_KEEP);
    expect_refusal([&] { edit.describe_state(own, 3, TSR_ON_CHANGE_KEEP); }, {"velocity", "twice, and not alike"});
  });
  EXPECT_EQ(program.buffers.back().name, "passing");
  EXPECT_EQ(program.buffers[program.buffers.size() - 2].state, (StateDescription{2, TSR_ON_CHANGE_KEEP}));
}

TEST_F(EditTest, KeepsOnlyWhatACheckpointHolds) {
  const auto add = [&](uint32_t kind, bool persistent) {
    run(program,
        [&](const ProgramView&, const Edit& edit) { edit.add_buffer("momentum", kind, TSR_F32, 64, persistent); });
  };
  add(TSR_BUFFER_OPTIMIZER, false);
  add(TSR_BUFFER_PLUGIN, true);
  for (const uint32_t kind : {TSR_BUFFER_HOME, TSR_BUFFER_OPTIMIZER, TSR_BUFFER_GATHERED, TSR_BUFFER_SCALAR})
    expect_refusal([&] { add(kind, true); },
                   {"lambda", "the buffer momentum is persistent", "no checkpoint would hold it"});
}

TEST_F(EditTest, WaitsThatBindingsDoNotAskFor) {
  uint64_t second = 0;
  run(program, [&](const ProgramView&, const Edit& edit) {
    tsr_action zero = make_action(TSR_ACTION_ZERO, TSR_STREAM_COPY_IN);
    const tsr_binding whole{y, 0, 64, TSR_SLOT(TSR_ROLE_DESTINATION, 0), TSR_MODE_WRITE};
    second = edit.insert(ids[2], TSR_AFTER, zero, {&whole, 1});
    edit.wait_for(second, ids[0]);
    edit.wait_for(second, ids[1]);
    expect_refusal([&] { edit.wait_for(second, second); }, {"cannot wait for itself"});
    expect_refusal([&] { edit.wait_for(second, 999); }, {"action 999 does not exist"});
    edit.remove(ids[1]);  // the wait goes with it
  });
  derive_dependencies(program);
  EXPECT_EQ(program.actions.back().id, second);
  EXPECT_EQ(program.actions.back().dependencies, (std::vector<uint32_t>{0}));
}

TEST_F(EditTest, AWaitForALaterActionIsRefused) {
  run(program, [&](const ProgramView&, const Edit& edit) { edit.wait_for(ids[0], ids[2]); });
  expect_refusal([&] { derive_dependencies(program); }, {"a pass makes action 0", "which is not before it"});
}

TEST_F(EditTest, ALayoutSpeaksOfItsOwnAxisOnly) {
  Lambda lambda([](const ProgramView&, const Edit&) {});
  Strategy& strategy = lambda;
  const StrategyOnAxis on_axis{"lambda", 0, &Table::kInterface, reinterpret_cast<tsr_strategy*>(&strategy)};
  BaseProgram base(program);
  base.add_layout(on_axis);
  ASSERT_EQ(base.program().layout.size(), 1u);
  EXPECT_EQ(base.program().layout[0].parts, 2u);
  // What rules see of a role's first entry would not be what counts.
  lambda.second_roles = 1u << TSR_HOME_GRADIENT;
  expect_refusal([&] { base.add_layout(on_axis); },
                 {"strategy lambda on axis dp", "two layout entries are for the gradient of wte.weight on axis dp"});
  lambda.roles &= ~lambda.second_roles;
  base.add_layout(on_axis);
  EXPECT_EQ(base.program().layout.size(), 3u);
  lambda.second_roles = 0;
  lambda.split_axis = 1;
  expect_refusal([&] { base.add_layout(on_axis); }, {"own axis"});
  lambda.split_axis = 0;
  lambda.dim_name = TSR_DIM_SEQ;
  expect_refusal([&] { base.add_layout(on_axis); }, {"splits dim 2 of values", "only their rows"});
  lambda.dim_name = 0;
  lambda.parts = 3;
  expect_refusal([&] { base.add_layout(on_axis); }, {"wte.weight into 3 parts over the 2 ranks of dp"});
  lambda.parts = 2;
  lambda.num_missing = 1;
  expect_refusal([&] { base.add_layout(on_axis); }, {"512 elements, and its padded_size is 511"});
  lambda.spare = 1;
  expect_refusal([&] { base.add_layout(on_axis); }, {"tsr_layout_entry", "spare or reserved"});
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
