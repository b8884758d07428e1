// Movement of items: what it inserts in small cases, and where other programs find what rests.
// movement_property_test.cc has random programs.
#include "offload/movement.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/concat.h"
#include "offload/resting.h"
#include "support/expect_error.h"
#include "support/small_step.h"

namespace tessera::testing {
namespace {

TEST(Movement, IsAheadAndLingersByVisits) {
  SmallStep step({{{"t", 'w'}}, {}, {}, {}, {}, {{"t", 'r'}}});
  EXPECT_EQ(step.leave("t", 0, 1, 1).moved(),
            (Words{"compute", "compute", "evict t", "compute", "compute", "fetch t", "compute", "compute"}));
}

TEST(Movement, CopiesOutOnlyWhatWasWritten) {
  SmallStep step({{{"t", 'w'}}, {}, {{"t", 'r'}}, {}, {{"t", 'r'}}});
  EXPECT_EQ(step.leave("t", 0, 0, 0).leave("t", 2, 0, 0).moved(),
            (Words{"compute", "evict t", "compute", "fetch t", "compute", "compute", "fetch t", "compute"}));
}

TEST(Movement, CopiesOutAgainWhatWasAddedTo) {
  SmallStep step({{{"t", 'w'}}, {}, {{"t", 'a'}}, {}, {{"t", 'r'}}});
  EXPECT_EQ(step.leave("t", 0, 0, 0).leave("t", 2, 0, 0).moved(),
            (Words{"compute", "evict t", "compute", "fetch t", "compute", "evict t", "compute", "fetch t", "compute"}));
}

TEST(Movement, ThatLingersUntilTheNextFetchEvictsBeforeIt) {
  SmallStep step({{{"t", 'w'}}, {}, {{"t", 'r'}}});
  EXPECT_EQ(step.leave("t", 0, 1, 9).moved(), (Words{"compute", "evict t", "fetch t", "compute", "compute"}));
}

TEST(Movement, FetchesFirstWhatIsUsedFirst) {
  SmallStep step({{{"a", 'w'}, {"b", 'w'}}, {}, {{"b", 'r'}}, {{"a", 'r'}}});
  EXPECT_EQ(step.leave("a", 0, 2, 0).leave("b", 0, 1, 0).moved(),
            (Words{"compute", "evict a", "evict b", "fetch b", "fetch a", "compute", "compute", "compute"}));
}

TEST(Movement, EvictsFirstWhatWasLastUsedFirst) {
  SmallStep step({{{"a", 'w'}}, {{"b", 'w'}}, {{"a", 'r'}}, {}, {{"a", 'r'}, {"b", 'r'}}});
  EXPECT_EQ(step.leave("a", 2, 0, 0).leave("b", 1, 0, 1).moved(),
            (Words{"compute", "compute", "compute", "evict b", "evict a", "compute", "fetch a", "fetch b", "compute"}));
}

TEST(Movement, OfATransientItemAfterItsLastUseIsNothing) {
  SmallStep step({{{"t", 'w'}}, {{"t", 'r'}}});
  EXPECT_EQ(step.leave("t", 1, 0, 0).moved(), (Words{"compute", "compute"}));
  EXPECT_EQ(step.buffer("t").memory, TSR_MEMORY_DEVICE);
}

TEST(Movement, WithoutLeavesIsNothing) {
  SmallStep step({{{"t", 'w'}}, {{"t", 'r'}}});
  EXPECT_EQ(step.moved(), (Words{"compute", "compute"}));
  EXPECT_EQ(step.program.streams.size(), 3u);
}

TEST(Movement, OfWhatRestsFetchesItForItsFirstUseToo) {
  SmallStep step({{}, {{"p", 'r'}}, {}, {}, {{"p", 'a'}}, {}});
  EXPECT_EQ(step.leave("p", 1, 1, 0).leave("p", 4, 0, 0).moved(),
            (Words{"compute", "fetch p", "compute", "compute", "fetch p", "compute", "compute", "evict p", "compute"}));
  EXPECT_EQ(step.buffer("p").memory, TSR_MEMORY_HOST);
}

// Its first fetch is as far ahead as its last leave says, since that is how it left in the step before.
TEST(Movement, OfWhatRestsBeginsAheadAndEndsLingering) {
  SmallStep step({{}, {}, {{"p", 'a'}}, {}, {}});
  EXPECT_EQ(step.leave("p", 2, 1, 1).moved(),
            (Words{"compute", "fetch p", "compute", "compute", "compute", "evict p", "compute"}));
  SmallStep clamped({{}, {{"p", 'a'}}, {}});
  EXPECT_EQ(clamped.leave("p", 1, 9, 9).moved(), (Words{"fetch p", "compute", "compute", "compute", "evict p"}));
}

TEST(Movement, OfWhatRestsAndIsOnlyReadCopiesNothingOut) {
  SmallStep step({{{"p", 'r'}}, {}, {{"p", 'r'}}});
  EXPECT_EQ(step.leave("p", 0, 0, 0).leave("p", 2, 0, 0).moved(),
            (Words{"fetch p", "compute", "compute", "fetch p", "compute"}));
}

TEST(Movement, OfWhatRestsStaysWhereNoLeaveIs) {
  SmallStep step({{{"p", 'a'}}, {}, {{"p", 'a'}}});
  EXPECT_EQ(step.leave("p", 2, 0, 0).moved(), (Words{"fetch p", "compute", "compute", "compute", "evict p"}));
}

// Nothing of the step before is needed.
TEST(Movement, OfWhatRestsAndIsWrittenFirstFetchesNothing) {
  SmallStep step({{{"p", 'w'}}});
  EXPECT_EQ(step.leave("p", 0, 0, 0).moved(), (Words{"compute", "evict p"}));
}

TEST(Movement, OfWhatRestsUsesItsOwnRangeOfTheBuffer) {
  SmallStep step({{{"p", 'a'}}});
  step.program.actions[0].bindings[0].offset = 16;
  step.program.actions[0].bindings[0].num_elements = 8;
  step.leave("p", 0, 0, 0).moved();
  const auto expect = [&](size_t action, size_t binding, uint64_t offset, std::string_view buffer) {
    const Binding& b = step.program.actions[action].bindings[binding];
    EXPECT_EQ(b.offset, offset);
    EXPECT_EQ(b.num_elements, 8u);
    EXPECT_EQ(buffer_kind_name(step.program.buffer(b.buffer).kind), buffer);
  };
  expect(0, 0, 16, "home");
  expect(0, 1, 0, "fetched");
  expect(1, 0, 0, "fetched");
  expect(2, 0, 0, "fetched");
  expect(2, 1, 16, "home");
  EXPECT_EQ(step.program.buffer(step.program.actions[1].bindings[0].buffer).num_elements, 8u);
}

TEST(Movement, TakesPaddingAlongThatIsAddedTo) {
  SmallStep step({{{"t", 'w'}}, {}, {}, {{"t", 'a'}}});
  step.program.actions[0].bindings[0].num_elements = 48;
  EXPECT_EQ(step.leave("t", 0, 0, 0).moved(),
            (Words{"compute", "evict t", "compute", "compute", "fetch t", "compute"}));
  for (const size_t copy : {1, 4})
    for (const Binding& b : step.program.actions[copy].bindings)
      EXPECT_EQ(b.num_elements, 64u);
}

// Else two copies might share a block.
TEST(Movement, OfWhatRestsInAFileIsOfWholeBlocks) {
  SmallStep step({{{"p", 'a'}}});
  step.program.actions[0].bindings[0].offset = 16;
  step.program.actions[0].bindings[0].num_elements = 8;
  tsr_leave leave = step.answer("p", 0, 0, 0);
  leave.memory = TSR_MEMORY_FILE;
  move_items(step.program, step.visits, {&leave, 1});
  size_t num_copies = 0;
  for (const Action& action : step.program.actions)
    for (const Binding& b : action.bindings)
      if (b.buffer == leave.buffer) {
        ++num_copies;
        EXPECT_EQ(b.offset, 0u);
        EXPECT_EQ(b.num_elements, step.buffer("p").num_elements);
      }
  EXPECT_EQ(num_copies, 2u);
}

// What leaves keeps its kind, which is how a plan's tables tell what is away.
TEST(Movement, NamesWhatIsAwayAndWhatCameBack) {
  SmallStep step({{{"t", 'w'}}, {}, {{"t", 'r'}}});
  step.leave("t", 0, 0, 0).moved();
  const Buffer &away = step.program.buffer(step.program.actions[1].bindings[1].buffer),
               &back = step.program.buffer(step.program.actions[3].bindings[1].buffer);
  EXPECT_EQ(away.kind, TSR_BUFFER_ACTIVATION);
  EXPECT_EQ(away.memory, TSR_MEMORY_HOST);
  EXPECT_EQ(back.kind, TSR_BUFFER_FETCHED);
  EXPECT_EQ(back.memory, TSR_MEMORY_DEVICE);
  for (const Buffer* buffer : {&away, &back}) {
    EXPECT_EQ(buffer->name, "t");
    EXPECT_FALSE(buffer->persistent);
    EXPECT_EQ(buffer->num_elements, 64u);
  }
}

// ---- squares of gradients ------------------------------------------------------------------------------------------

TEST(Movement, SumsSquaresBeforeAGradientLeaves) {
  SmallStep step({{{"t", 'w'}}, {}, {}, {{"t", 's'}}, {}, {{"t", 'r'}}});
  EXPECT_EQ(step.leave("t", 0, 0, 1).leave("t", 3, 0, 0).moved(),
            (Words{"compute", "compute", "squares t", "evict t", "compute", "compute", "fetch t", "compute"}));
}

// After the last micro-batch, where the gradient came back to be added to.
TEST(Movement, SumsSquaresInTheLastStayThatChangesAGradient) {
  SmallStep step({{{"t", 'w'}}, {}, {{"t", 'a'}}, {}, {{"t", 's'}}, {{"t", 'r'}}});
  EXPECT_EQ(step.leave("t", 0, 0, 0).leave("t", 2, 0, 0).leave("t", 4, 0, 0).moved(),
            (Words{"compute", "evict t", "compute", "fetch t", "compute", "squares t", "evict t", "compute", "fetch t",
                   "compute"}));
  const Program& program = step.program;
  EXPECT_EQ(program.actions[5].bindings[0].buffer, program.actions[4].bindings[0].buffer) << "the fetched copy";
}

TEST(Movement, SumsSquaresWhereTheyWereIfTheGradientIsThere) {
  SmallStep step({{{"t", 'w'}}, {{"t", 's'}}, {}, {{"t", 'r'}}});
  EXPECT_EQ(step.leave("t", 1, 0, 0).moved(),
            (Words{"compute", "squares t", "evict t", "compute", "fetch t", "compute"}));
}

// It lingers past them, so they stay in their place.
TEST(Movement, SumsSquaresNoLaterThanBefore) {
  SmallStep step({{{"t", 'w'}}, {}, {{"t", 's'}}, {}, {{"t", 'r'}}});
  EXPECT_EQ(step.leave("t", 0, 0, 9).leave("t", 2, 0, 9).moved(),
            (Words{"compute", "compute", "squares t", "compute", "evict t", "fetch t", "compute"}));
}

// What completes a gradient, such as a sum over stages, comes before its squares.
TEST(Movement, SumsSquaresOfTheCompleteGradient) {
  SmallStep step({{{"t", 'w'}}, {}, {{"t", 'a'}}, {{"t", 's'}}, {}, {{"t", 'r'}}});
  EXPECT_EQ(step.leave("t", 0, 0, 0).leave("t", 3, 0, 0).moved(),
            (Words{"compute", "evict t", "compute", "fetch t", "compute", "squares t", "evict t", "compute", "fetch t",
                   "compute"}));
}

// The range of the squares was not all there: they are where they were, and it is fetched for them.
TEST(Movement, SumsSquaresOfWhatIsNotAllThereWhereTheyWere) {
  SmallStep step({{{"t", 'w'}}, {}, {{"t", 'a'}}, {}, {{"t", 's'}}, {}, {{"t", 'r'}}});
  step.program.actions[2].bindings[0].num_elements = 32;
  EXPECT_EQ(step.leave("t", 0, 0, 0).leave("t", 2, 0, 0).leave("t", 4, 0, 0).moved(),
            (Words{"compute", "evict t", "compute", "fetch t", "compute", "evict t", "compute", "fetch t", "fetch t",
                   "squares t", "compute", "fetch t", "fetch t", "compute"}));
}

// Padding belongs to the parameter before it, and zero_pads writes it before the squares.
TEST(Movement, SumsSquaresOfPaddingToo) {
  SmallStep step({{{"t", 'w'}}, {}, {{"t", 's'}}, {}, {{"t", 'r'}}});
  step.program.actions[0].bindings[0].num_elements = 60;
  EXPECT_EQ(step.leave("t", 0, 0, 0).leave("t", 2, 0, 0).moved(),
            (Words{"compute", "squares t", "evict t", "compute", "compute", "fetch t", "compute"}));
}

// ---- actions on the host -------------------------------------------------------------------------------------------

/// The actions of these visits run on the host.
Words moved_on_host(SmallStep& step, std::vector<size_t> on_host) {
  move_items(step.program, step.visits, step.leaves(), true, on_host);
  return words(step.program);
}

TEST(Movement, WorksOnTheHostWhereAnItemRests) {
  SmallStep step({{{"p", 'r'}}, {}, {{"p", 'a'}}, {}, {{"p", 'r'}}});
  step.leave("p", 0, 0, 0).leave("p", 2, 0, 0).leave("p", 4, 0, 0);
  EXPECT_EQ(moved_on_host(step, {2}),
            (Words{"fetch p", "compute", "compute", "host", "compute", "fetch p", "compute"}));
  EXPECT_EQ(step.program.actions[3].bindings[0].buffer, step.buffer("p").id);
}

// What the device has written is in its place before the host uses it, and what the host has written before the device
// fetches it, however far ahead.
TEST(Movement, OrdersTheHostAndTheDevice) {
  SmallStep step({{{"p", 'a'}}, {}, {}, {{"p", 'a'}}, {}, {{"p", 'a'}}});
  step.leave("p", 0, 9, 9).leave("p", 3, 9, 9).leave("p", 5, 9, 9);
  EXPECT_EQ(moved_on_host(step, {3}), (Words{"fetch p", "compute", "compute", "compute", "evict p", "host", "fetch p",
                                             "compute", "compute", "evict p"}));
}

TEST(Movement, WorksOnTheHostOnWhatWasEvicted) {
  SmallStep step({{{"t", 'w'}}, {}, {{"t", 'a'}}, {}, {{"t", 'r'}}});
  step.leave("t", 0, 0, 0).leave("t", 2, 0, 0);
  EXPECT_EQ(moved_on_host(step, {2}),
            (Words{"compute", "evict t", "compute", "host", "compute", "fetch t", "compute"}));
  const std::vector<Action>& actions = step.program.actions;
  EXPECT_EQ(actions[3].bindings[0].buffer, actions[1].bindings[1].buffer);
  EXPECT_EQ(actions[5].bindings[0].buffer, actions[1].bindings[1].buffer);
}

// In two pieces, from two stays: the host gets a copy in one.
TEST(Movement, GathersOnTheHostWhatWasEvictedInPieces) {
  SmallStep step({{{"t", 'w'}}, {}, {{"t", 'a'}}, {}, {{"t", 'r'}}});
  step.program.actions[2].bindings[0].num_elements = 32;
  step.leave("t", 0, 0, 0).leave("t", 2, 0, 0);
  EXPECT_EQ(moved_on_host(step, {4}), (Words{"compute", "evict t", "compute", "fetch t", "compute", "evict t",
                                             "compute", "host", "host", "host"}));
}

TEST(Movement, SumsSquaresOnTheHostAsSoonAsTheyAreThere) {
  SmallStep step({{{"t", 'w'}}, {}, {}, {}, {{"t", 's'}}, {{"t", 'r'}}});
  step.leave("t", 0, 0, 1).leave("t", 4, 0, 0);
  EXPECT_EQ(moved_on_host(step, {4, 5}),
            (Words{"compute", "compute", "evict t", "squares t", "compute", "compute", "host"}));
  EXPECT_EQ(step.program.streams[step.program.actions[3].stream].name, "host");
}

/// A gradient whose squares are summed, and that updates a home; clip between them. The step's scalars besides.
struct Update {
  explicit Update(const SmallStep& step) : program(step.program) {
    squares = persistent(program, "squares", 20, TSR_BUFFER_ACCUMULATOR, TSR_I64);
    clip = persistent(program, "clip", 3, TSR_BUFFER_SCALAR, TSR_F64);
    lr = persistent(program, "lr", 1, TSR_BUFFER_SCALAR, TSR_F64);
    const auto bind = [&](size_t action, uint64_t buffer, uint32_t scalar, uint32_t mode) {
      program.actions[action].bindings.push_back(
          {buffer, 0, program.buffer(buffer).num_elements, TSR_SLOT(TSR_ROLE_SCALAR, scalar), mode});
    };
    for (const size_t sum : {1, 2})
      bind(sum, squares, TSR_SCALAR_ACCUMULATOR, TSR_MODE_ADD);
    bind(3, squares, TSR_SCALAR_ACCUMULATOR, TSR_MODE_READ);
    bind(3, clip, TSR_SCALAR_CLIP, TSR_MODE_WRITE);
    for (const size_t update : {4, 5}) {
      bind(update, clip, TSR_SCALAR_CLIP, TSR_MODE_READ);
      bind(update, lr, TSR_SCALAR_LR, TSR_MODE_READ);
    }
  }
  Program program;
  uint64_t squares = 0, clip = 0, lr = 0;
};

TEST(Movement, CopiesScalarsAndAddsUpSquaresOfTheHost) {
  SmallStep step({{{"t", 'w'}, {"u", 'w'}}, {{"t", 's'}}, {{"u", 's'}}, {}, {{"t", 'r'}}, {{"u", 'r'}}});
  step.leave("t", 0, 0, 0).leave("t", 1, 0, 0);
  Update update(step);
  Program& program = update.program;
  const std::vector<size_t> on_host = {1, 4};
  move_items(program, step.visits, step.leaves(), true, on_host);
  const auto name = [&](const Action& action, size_t binding) {
    return program.buffer(action.bindings.at(binding).buffer).name;
  };
  Words found;
  for (const Action& action : program.actions)
    found.push_back(concat(program.streams[action.stream].name, " ", action_name(action.kind), " ",
                           action.bindings.empty() ? "" : name(action, 0)));
  EXPECT_EQ(found, (Words{"compute zero t", "host zero squares", "evict copy t", "host sum_squares t",
                          "compute sum_squares u", "fetch copy squares", "compute add squares", "compute zero squares",
                          "evict copy clip", "evict copy lr", "host zero t", "compute zero u"}));
  const uint64_t own = program.actions[1].bindings[0].buffer;
  EXPECT_NE(own, update.squares);
  EXPECT_EQ(program.buffer(own).memory, TSR_MEMORY_HOST);
  EXPECT_EQ(program.actions[3].bindings[1].buffer, own);
  EXPECT_EQ(program.actions[4].bindings[1].buffer, update.squares);
  EXPECT_EQ(program.actions[6].bindings[1].buffer, update.squares);
  EXPECT_EQ(program.actions[6].bindings[1].mode, TSR_MODE_ADD);
  EXPECT_EQ(program.actions[10].bindings[1].buffer, program.actions[8].bindings[1].buffer);
  EXPECT_EQ(program.actions[11].bindings[1].buffer, update.clip) << "on the device";
}

TEST(Movement, CopiesAScalarOnceForAllThatReadItOnTheHost) {
  SmallStep step({{{"t", 'w'}, {"u", 'w'}}, {{"t", 's'}}, {{"u", 's'}}, {}, {{"t", 'r'}}, {{"u", 'r'}}});
  step.leave("t", 0, 0, 0).leave("t", 1, 0, 0).leave("u", 0, 0, 0).leave("u", 2, 0, 0);
  Update update(step);
  const std::vector<size_t> on_host = {1, 2, 4, 5};
  move_items(update.program, step.visits, step.leaves(), true, on_host);
  const auto copies_of = [&](uint64_t buffer) {
    return std::ranges::count_if(update.program.actions, [&](const Action& action) {
      return action.kind == TSR_ACTION_COPY && action.bindings[0].buffer == buffer;
    });
  };
  EXPECT_EQ(copies_of(update.clip), 1);
  EXPECT_EQ(copies_of(update.lr), 1);
}

// ---- what rests, in other programs -------------------------------------------------------------------------------

TEST(Resting, IsWhatTheLastLeaveOfAPersistentItemSays) {
  SmallStep step({{{"p", 'a'}, {"t", 'w'}}, {{"p", 'a'}}, {{"p", 'a'}, {"t", 'r'}}});
  const tsr_leave leaves[] = {step.answer("p", 0, 1, 1), step.answer("p", 2, 2, 3), step.answer("p", 1, 1, 1),
                              step.answer("t", 0, 1, 1)};
  const std::vector<RestingBuffer> resting = resting_buffers(step.program, leaves);
  ASSERT_EQ(resting.size(), 1u);
  EXPECT_EQ(resting[0].kind, TSR_BUFFER_HOME);
  EXPECT_EQ(resting[0].name, "p");
  EXPECT_EQ(resting[0].leave.memory, TSR_MEMORY_HOST);
  EXPECT_EQ(resting[0].leave.ahead, 2u);
  EXPECT_EQ(resting[0].leave.linger, 3u);
}

const RestingBuffer kRestsInHostMemory{TSR_BUFFER_HOME, -1, "p", {0, 0, TSR_MEMORY_HOST, 0, 0}};

/// Another program of a rank: each action is a visit, since their homes alternate.
Program other_program(const Model& model, const std::vector<uint32_t>& modes) {
  Program program = empty_program(model, kOneRank);
  transient(program, "first", 8);
  const uint64_t p = persistent(program, "p", 64), of_another_kind = persistent(program, "p", 64, TSR_BUFFER_OPTIMIZER);
  for (int unit = 0; unit < 2; ++unit)
    program.homes.push_back({program.next_id++, "home", unit, {}, 0, {}});
  for (const uint32_t mode : modes)
    add_action(program, TSR_ACTION_SUM_SQUARES, TSR_STREAM_COMPUTE, {{p, mode}, read(of_another_kind, 1)}).home =
        program.homes[program.actions.size() % 2].id;
  return program;
}

TEST(Resting, IsFetchedForEveryUseAndEvictedAfterWrites) {
  const Model model = toy_model();
  Program program = other_program(model, {TSR_MODE_READ, TSR_MODE_ADD, TSR_MODE_READ});
  follow_resting_buffers(program, {&kRestsInHostMemory, 1});
  EXPECT_EQ(words(program), (Words{"fetch p", "squares p", "fetch p", "squares p", "evict p", "fetch p", "squares p"}));
  EXPECT_EQ(program.buffers[1].memory, TSR_MEMORY_HOST);
  EXPECT_EQ(program.buffers[2].memory, TSR_MEMORY_DEVICE) << "it has the name, and not the kind";
}

TEST(Resting, IsFetchedAsFarAheadAsInTheStep) {
  const Model model = toy_model();
  Program program = other_program(model, {TSR_MODE_READ, TSR_MODE_READ, TSR_MODE_ADD, TSR_MODE_READ, TSR_MODE_READ});
  RestingBuffer resting = kRestsInHostMemory;
  resting.leave.ahead = resting.leave.linger = 1;
  follow_resting_buffers(program, {&resting, 1});
  EXPECT_EQ(words(program), (Words{"fetch p", "fetch p", "squares p", "fetch p", "squares p", "squares p", "evict p",
                                   "fetch p", "fetch p", "squares p", "squares p"}));
}

TEST(Resting, LingersAsInTheStep) {
  const Model model = toy_model();
  Program program = other_program(model, {TSR_MODE_ADD, TSR_MODE_READ});
  Binding& elsewhere = program.actions[1].bindings[0];
  elsewhere.buffer = program.actions[1].bindings[1].buffer;
  RestingBuffer resting = kRestsInHostMemory;
  resting.leave.linger = 1;
  follow_resting_buffers(program, {&resting, 1});
  EXPECT_EQ(words(program), (Words{"fetch p", "squares p", "squares p", "evict p"}));
}

// A variant of the step may not use what another one has left elsewhere: it is there all the same.
TEST(Resting, IsTheSameInAllVariantsOfAStep) {
  const Model model = toy_model();
  Program unused = other_program(model, {}), uses = other_program(model, {TSR_MODE_READ});
  agree_on_resting_buffers(unused, {&kRestsInHostMemory, 1});
  EXPECT_EQ(unused.buffers[1].memory, TSR_MEMORY_HOST);
  EXPECT_EQ(unused.buffers[2].memory, TSR_MEMORY_DEVICE) << "it has the name, and not the kind";
  agree_on_resting_buffers(unused, {&kRestsInHostMemory, 1});
  EXPECT_EQ(unused.buffers[1].memory, TSR_MEMORY_HOST);
  uses.variant = 1;
  expect_error<Error>(
      [&] {
        agree_on_resting_buffers(uses, {&kRestsInHostMemory, 1});
      },
      {"offload policies let home p rest in host memory in one variant of the step, and in device memory "
       "in variant 1; a buffer rests in one memory"});
}

TEST(Resting, ThatNothingUsesIsNotCopied) {
  const Model model = toy_model();
  Program program = other_program(model, {});
  follow_resting_buffers(program, {&kRestsInHostMemory, 1});
  EXPECT_EQ(program.buffers[1].memory, TSR_MEMORY_HOST);
  EXPECT_TRUE(program.actions.empty());
}

}  // namespace
}  // namespace tessera::testing
